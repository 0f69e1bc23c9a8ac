"""The build, from an ONNX file to a verified artifact directory."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
import pyopencl as cl
from tinygrad import Tensor as DeviceTensor

from compile.assemble import Parts, assemble
from compile.attribution import Attribution, attribute
from compile.capture import Capture, CapturedRun, device_tensor, materialize
from compile.contract import read_interface, recognise
from compile.coverage import check_coverage
from compile.device import use_device
from compile.double import DoubleReference
from compile.emit import check_target, staged, write_artifact
from compile.images import image_alignment, image_table, images, in_images, require_images
from compile.importer import ImportedModel, import_model
from compile.kernels import kernel_ops
from compile.kernels.select import own_kernels
from compile.memory import ALIGNMENT, plan_memory
from compile.operators import is_half, is_quantised
from compile.ops import build_op_table
from compile.ops.nms import with_declared_rows
from compile.ops.registry import make_table
from compile.prebuild import prebuild
from compile.precision import choose_half
from compile.progress import Progress, Silent
from compile.request import BuildRequest
from compile.runner import GraphRunner
from compile.samples import SEEDS, TURNS, random_inputs
from compile.values import HalfPlan
from compile.verify import (
    SECOND_IMPLEMENTATIONS,
    CannotRunError,
    Comparison,
    Known,
    OnnxRuntime,
    RunFunction,
    SecondImplementation,
    compare_with,
    require_equal,
    require_no_update_in_place,
    require_seeds_differ,
    run_turns,
    tolerances,
    widest,
    with_all_values,
)
from compile.warp import WARP_INPUTS, warp_program
from modeld.artifact import Artifact, open_artifact
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.manifest import Contract, Tensor, Tolerance
from modeld.opencl import describe_device, select_device
from modeld.selftest import check as self_test
from modeld.selftest import with_heads

Array = npt.NDArray[np.generic]

# What tinygrad raises when its code generation meets a graph that it cannot bear.
_TINYGRAD_ERRORS = (
    ArithmeticError,
    AssertionError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

STAGES = 7


def build(request: BuildRequest, progress: Progress | None = None) -> str:
    """Build and verify the artifact `request.out`; returns its identity, `sha256:<hex>`.

    Nothing is left behind when it fails. Raises ModeldError for everything a user can cure.
    """
    progress = Silent() if progress is None else progress
    check_target(request.out)
    device = select_device(request.device)
    if request.image:
        require_images(device)
    use_device(device)

    progress.stage("reading the model")
    imported = import_model(request.model, request.dims, request.policies)
    check_coverage(imported.model)
    inputs = request.inputs(imported.model)
    _require_room(inputs, device)
    samples = {
        seed: random_inputs(inputs, seed, request.reference_inputs, shuffled=n > 0)
        for n, seed in enumerate(SEEDS)
    }
    half = _half(imported, request, samples, progress)
    # Ours read float32 from buffers.
    tuned = request.tuned and half is None and not request.image
    kernels = own_kernels(imported, device, tuned, request.tuning, request.tune_budget_s, progress)
    progress.stage("generating kernels")
    with images(request.image, half):
        traced = _trace(kernels.model, imported, request, half, samples[SEEDS[0]], device, progress)
    contract = recognise(
        read_interface(imported.model, traced.outputs, set(request.constants)),
        request.frozen(),
        request.cameras,
        imported.generation,
    )
    progress.stage("running the captured kernels")
    require_no_update_in_place(traced.captured.program)
    require_equal("eager and captured run", traced.eager, traced.captured.run(samples[SEEDS[0]]))
    known = _known_runs(traced.captured, contract, samples)

    progress.stage("comparing with a second implementation")
    allowed = _allowed(imported.model, contract, known, half)
    compared = _second_opinion(imported, request, contract, known, allowed, progress)
    if not (compared.errors and request.reference_inputs):
        # For inputs from the user, a second implementation that gives the same settles it.
        require_seeds_differ(known, _dependent_outputs(traced.captured.program))
    attribution = _attribute(imported, request, traced.captured, samples[SEEDS[0]])

    progress.stage("planning memory and writing the artifact")
    info = describe_device(device)
    wanted = image_alignment(traced.captured.program)
    extra = WARP_INPUTS if contract.cameras else ()
    plan = plan_memory(traced.captured.program, contract, extra, max(ALIGNMENT, wanted.offsets))
    manifest, files = assemble(
        Parts(
            name=request.name or imported.name,
            source=imported.source,
            flags=_flags(request, half, compared),
            device=info,
            contract=contract,
            capture=traced.captured.program,
            attribution=attribution,
            plan=plan,
            warps=[warp_program(c, plan.bindings, info.device_class) for c in contract.cameras],
            known=known,
            digest=_digest(known),
            tolerances=compared.tolerances,
            errors=compared.errors,
            image_rows=wanted.rows,
            tuning_sha256=kernels.tuning_sha256,
        )
    )
    with staged(request.out) as directory:
        write_artifact(directory, manifest, files)
        progress.stage("replaying the artifact")
        artifact = open_artifact(directory)
        _replay(artifact, device)
    progress.done()
    if compared.refusals:
        reasons = "; ".join(compared.refusals)
        progress.remark(f"unverified: no second implementation has run this model ({reasons})")
    return artifact.digest


@dataclass(frozen=True)
class _Traced:
    """One eager run and the capture of the same graph; `outputs` are (shape, dtype) by name."""

    eager: dict[str, Array]
    captured: CapturedRun
    outputs: dict[str, tuple[tuple[int, ...], str]]


def _require_room(inputs: Sequence[Tensor], device: cl.Device) -> None:
    """Raise ModeldError for an input that no buffer of the device can hold."""
    for tensor in inputs:
        size = math.prod(tensor.shape) * np.dtype(tensor.dtype).itemsize
        if size > device.max_mem_alloc_size:
            raise ModeldError(
                f"input {tensor.name} is {tensor.dtype}{list(tensor.shape)}, {size / 2**30:.1f} "
                f"GiB; a buffer of {device.name.strip()} holds at most "
                f"{device.max_mem_alloc_size / 2**30:.1f} GiB, export the model with smaller "
                "dimensions"
            )


def _half(
    imported: ImportedModel,
    request: BuildRequest,
    samples: Mapping[int, Mapping[str, Array]],
    progress: Progress,
) -> HalfPlan | None:
    if request.dtype == "float32":
        if request.range_report:
            raise ModeldError("--range-report is about --dtype float16; give both")
        return None
    plan = choose_half(
        imported, request.constants, samples.values(), request.range_report, progress
    )
    return in_images(plan) if request.image else plan


def _trace(
    model: onnx.ModelProto,
    imported: ImportedModel,
    request: BuildRequest,
    half: HalfPlan | None,
    inputs: Mapping[str, Array],
    device: cl.Device,
    progress: Progress,
) -> _Traced:
    table = build_op_table() | make_table(kernel_ops())
    runner = GraphRunner(
        model,
        base_dir=imported.base_dir,
        frozen=dict(request.constants),
        table=image_table(table) if request.image else table,
        half=half,
    )

    def function(tensors: Mapping[str, DeviceTensor]) -> dict[str, DeviceTensor]:
        return materialize(runner(tensors))

    tensors = {name: device_tensor(array) for name, array in inputs.items()}
    # Puts the constants on the device. The result is dropped: equal expressions are one object in
    # tinygrad, and the capture would replace those of an eager run by buffers that hold nothing.
    function(tensors)
    names = {id(tensor.uop.base): name for name, tensor in runner.constants.named}
    try:
        captured = CapturedRun(function, tensors, names, progress.advance)
    except _TINYGRAD_ERRORS as error:
        text = " ".join(str(error).split())
        raise ModeldError(
            f"tinygrad cannot compile this model ({type(error).__name__}: {text[:200]}); "
            "export it with fewer or simpler operators"
        ) from error
    progress.stage("compiling programs")
    prebuild(captured.program, device, progress.advance)
    outputs = function(tensors)
    DeviceTensor.realize(*outputs.values())
    eager = {name: tensor.numpy() for name, tensor in outputs.items()}
    shapes = {name: (array.shape, array.dtype.name) for name, array in eager.items()}
    return _Traced(eager, captured, shapes)


def _known_runs(
    captured: CapturedRun, contract: Contract, samples: Mapping[int, Mapping[str, Array]]
) -> Known:
    states = {pair.input for pair in contract.state}
    inputs = {
        seed: {name: array for name, array in arrays.items() if name not in states}
        for seed, arrays in samples.items()
    }
    outputs = {
        seed: run_turns(captured.run, contract, arrays, TURNS) for seed, arrays in inputs.items()
    }
    return Known(inputs, outputs)


def _allowed(
    model: onnx.ModelProto, contract: Contract, known: Known, half: HalfPlan | None
) -> tuple[Tolerance, ...]:
    halved = is_half(model) or half is not None
    return widest(
        tolerances(with_heads(contract, outputs), is_quantised(model), halved)
        for outputs in known.outputs.values()
    )


def _dependent_outputs(capture: Capture) -> list[str]:
    """Outputs that are computed from inputs, through any number of launches."""
    varying = {i for i, storage in enumerate(capture.storages) if storage.role == "input"}
    for launch in capture.launches:
        if any(o.storage in varying for o in launch.operands if o.access != "write"):
            varying |= {o.storage for o in launch.operands if o.access != "read"}
    return [name for name, storage in capture.outputs.items() if storage in varying]


def _second_opinion(
    imported: ImportedModel,
    request: BuildRequest,
    contract: Contract,
    known: Known,
    allowed: tuple[Tolerance, ...],
    progress: Progress,
) -> Comparison:
    def exact() -> RunFunction:
        progress.note("differences are large, asking for the truth")
        truth = DoubleReference(imported.model, imported.base_dir)
        return lambda inputs: truth({**inputs, **request.constants})

    refusals = []
    for implementation in SECOND_IMPLEMENTATIONS:
        try:
            second = implementation(imported.model, imported.base_dir)

            def run(
                inputs: dict[str, Array], second: SecondImplementation = second
            ) -> dict[str, Array]:
                return with_declared_rows(imported.model, second({**inputs, **request.constants}))

            return compare_with(run, second.name, contract, known, TURNS, allowed, exact)
        except CannotRunError as error:
            progress.note(f"left out: {error}")
            refusals.append(str(error))
    if not request.unverified:
        raise ModeldError(
            f"gate failed: {'; '.join(refusals)}; correct the model, give --reference-inputs "
            "where random ones are out of its range, or --unverified to build without comparison"
        )
    return Comparison((), allowed, tuple(refusals))


def _attribute(
    imported: ImportedModel,
    request: BuildRequest,
    captured: CapturedRun,
    inputs: Mapping[str, Array],
) -> Attribution:
    """Whose nodes the launches are; nobody's where no second implementation knows the values."""
    captured.run(inputs)
    try:
        second = OnnxRuntime(with_all_values(imported.model), imported.base_dir)
        values = second({**inputs, **request.constants})
    except CannotRunError:
        values = {}
    return attribute(captured.program, imported.model, values, captured.intermediates())


def _replay(artifact: Artifact, device: cl.Device) -> None:
    """The last gate: our executor gives the captured run's outputs, bit for bit."""
    result = self_test(Executor(artifact, device), artifact)
    if not result.exact:
        raise ModeldError(
            f"gate failed: the executor differs from the captured run by up to "
            f"{max(result.worst.values()):.3g}; the artifact is not to be trusted"
        )


def _digest(known: Known) -> str:
    digest = hashlib.sha256()
    for seed in sorted(known.outputs):
        for name in sorted(known.outputs[seed]):
            digest.update(np.ascontiguousarray(known.outputs[seed][name]).tobytes())
    return digest.hexdigest()


def _flags(request: BuildRequest, half: HalfPlan | None, compared: Comparison) -> dict[str, str]:
    flags = {f"dim {name}": str(value) for name, value in request.dims.items()}
    if compared.refusals:
        flags["unverified"] = "yes"
    if not request.tuned:
        flags["tuned"] = "no"
    if half is not None:
        flags["dtype"] = "float16"
        if half.kept:
            flags["float32"] = " ".join(sorted(half.kept))
    if request.image:
        flags["image"] = "yes"
    if request.cameras:
        flags["camera"] = " ".join(camera.name for camera in request.cameras)
    return flags
