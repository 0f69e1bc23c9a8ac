"""Gates that a build must pass: what was captured is what the model says, on every path.

Eager tinygrad, the captured launches and our own executor must agree bit for bit; another seed
must give other outputs; and a second implementation must agree within the tolerance.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from compile.capture import Capture
from compile.folding import EVALUATOR_ERRORS
from modeld.errors import ModeldError
from modeld.manifest import Contract, OutputError, Tolerance
from modeld.selftest import with_heads

Array = npt.NDArray[np.generic]
RunFunction = Callable[[dict[str, Array]], dict[str, Array]]

# Allowed difference to the second implementation, relative to the range of the output's values;
# float16 has 11 significant bits and sums lose some of them.
_RANGE_TOLERANCE = {"f2": 2e-2, "f4": 1e-4, "f8": 1e-6}
# Sums of hundreds of terms in different order differ by some units in the last place of the result
# (9 were seen), since their terms are larger than it.
_ROUNDING_STEPS = 32
# Quantised outputs may round the other way once; other integers must be equal.
_INTEGER_STEPS = {"u1": 1, "i1": 1}
# Two ways of rounding are equally good when one ends this much farther from the truth.
_AS_NEAR = 2.0
# By how much other devices may differ more than a second implementation does.
_ROOM = 4.0
# A quantised network turns a tie rounded the other way into one step of its scale.
_QUANTISED_TOLERANCE = 5e-2


@dataclass(frozen=True)
class Known:
    """Inputs and last-turn outputs of the known runs, by seed."""

    inputs: dict[int, dict[str, Array]]
    outputs: dict[int, dict[str, Array]]


def run_turns(
    run: RunFunction, contract: Contract, inputs: Mapping[str, Array], turns: int
) -> dict[str, Array]:
    """Give `inputs` `turns` times, feeding state back from zero; the last turn's outputs."""
    shapes = {tensor.name: tensor for tensor in contract.inputs}
    state = {
        pair.input: np.zeros(shapes[pair.input].shape, shapes[pair.input].dtype)
        for pair in contract.state
    }
    for _ in range(turns):
        outputs = run({**inputs, **state})
        state = {pair.input: outputs[pair.output] for pair in contract.state}
    hidden = {pair.output for pair in contract.state}
    return {name: array for name, array in outputs.items() if name not in hidden}


def require_equal(what: str, first: Mapping[str, Array], second: Mapping[str, Array]) -> None:
    """Raise ModeldError unless all outputs are equal bit for bit."""
    for name, array in first.items():
        other = second[name]
        if array.shape != other.shape or array.dtype != other.dtype:
            raise ModeldError(
                f"gate failed: {what} differ in output {name}: {array.dtype}{list(array.shape)} "
                f"and {other.dtype}{list(other.shape)}"
            )
        if array.tobytes() != other.tobytes():
            # By bits, so that equal NaN do not count and differing zeros do.
            bits = (
                np.frombuffer(a.tobytes(), np.uint8).reshape(a.size, -1) for a in (array, other)
            )
            differing = int(np.count_nonzero((next(bits) != next(bits)).any(axis=1)))
            raise ModeldError(
                f"gate failed: {what} differ in output {name} "
                f"({differing} of {array.size} values); the compiler is not to be trusted here"
            )


def require_no_update_in_place(capture: Capture) -> None:
    """Raise ModeldError when a launch reads and writes one storage: a race between work-items."""
    for launch in capture.launches:
        written = {o.storage for o in launch.operands if o.access != "read"}
        read = {o.storage for o in launch.operands if o.access != "write"}
        if shared := sorted(written & read):
            storage = capture.storages[shared[0]]
            raise ModeldError(
                f"gate failed: kernel {launch.kernel} reads and writes one buffer "
                f"({storage.role} {storage.name}, {storage.bytes} bytes), a race between "
                "work-items; the model cannot be captured safely"
            )


def require_seeds_differ(known: Known, dependent: Sequence[str]) -> None:
    """Raise ModeldError when the `dependent` outputs (those computed from inputs) never change.

    Those that are nothing but NaN are named as such: it is the likelier cause.
    """
    first, second = (known.outputs[seed] for seed in sorted(known.outputs)[:2])
    names = [name for name in dependent if name in first and first[name].size]
    if names and all(first[name].tobytes() == second[name].tobytes() for name in names):
        if lost := [name for name in names if _is_nan(first[name])]:
            are = f"output {lost[0]} is" if len(lost) == 1 else f"outputs {', '.join(lost)} are"
            raise ModeldError(
                f"gate failed: {are} NaN for random inputs; look for NaN in the weights, or give "
                "--reference-inputs FILE.safetensors with inputs in the model's range"
            )
        raise ModeldError(
            f"gate failed: outputs {', '.join(names)} are the same for two different inputs; "
            "give --reference-inputs FILE.safetensors with inputs in the model's range"
        )


def _is_nan(array: Array) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).all())


def tolerances(outputs: Mapping[str, Array], quantised: bool, half: bool) -> tuple[Tolerance, ...]:
    """What each output may differ from its reference value, as absolute decimals.

    `half`: some values on the way are float16, whatever the outputs are.
    """
    least = max(_QUANTISED_TOLERANCE if quantised else 0.0, _RANGE_TOLERANCE["f2"] if half else 0.0)
    result = []
    for name, array in outputs.items():
        kind = array.dtype.str[1:]
        if kind in _RANGE_TOLERANCE:
            allowed = max(_RANGE_TOLERANCE[kind], least) * value_range(array)
            # Values far from zero and close together are known no better than their own rounding.
            rounding = _ROUNDING_STEPS * float(np.finfo(np.dtype(kind)).eps) * _largest(array)
            absolute = f"{max(allowed, rounding):.1e}"
        else:
            absolute = str(_INTEGER_STEPS.get(kind, 0))
        result.append(Tolerance(name, absolute, "0"))
    return tuple(result)


def widest(tables: Iterable[tuple[Tolerance, ...]]) -> tuple[Tolerance, ...]:
    """For each output the largest of several tolerances: one run's range may be a small part."""
    chosen: dict[str, Tolerance] = {}
    for tolerance in (tolerance for table in tables for tolerance in table):
        known = chosen.setdefault(tolerance.output, tolerance)
        if float(tolerance.absolute) > float(known.absolute):
            chosen[tolerance.output] = tolerance
    return tuple(chosen.values())


def _finite(array: Array) -> npt.NDArray[np.float64]:
    values = array.astype(np.float64)
    return values[np.isfinite(values)]


def _largest(array: Array) -> float:
    finite = _finite(array)
    return float(np.max(np.abs(finite))) if finite.size else 0.0


def value_range(array: Array) -> float:
    """Largest minus smallest finite value; for a constant its size, and 1 for zeros."""
    finite = _finite(array)
    return (float(np.ptp(finite)) if finite.size else 0.0) or _largest(array) or 1.0


def largest_difference(found: Array, expected: Array) -> float:
    """Largest absolute difference; equal infinities and NaN at one place count as equal."""
    if not found.size:
        return 0.0
    a, b = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.max(np.nan_to_num(difference, nan=np.inf)))


class CannotRunError(ModeldError):
    """A second implementation does not know this model."""


class SecondImplementation(Protocol):
    """Runs a model; `name` is program and version."""

    name: str

    def __call__(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """All outputs by name. Raises CannotRunError."""


class OnnxReference:
    """The onnx package's evaluator in numpy: slow, and it knows operators that others do not."""

    def __init__(self, model: onnx.ModelProto, base_dir: Path) -> None:
        """Raises CannotRunError."""
        self.name = f"onnx {onnx.__version__}"
        try:
            self._evaluator = ReferenceEvaluator(_with_weights(model, base_dir))
        except EVALUATOR_ERRORS as error:
            raise CannotRunError(f"{self.name} cannot run this model ({_line(error)})") from None

    def __call__(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """All outputs by name. Raises CannotRunError when the run fails."""
        try:
            with np.errstate(all="ignore"):
                outputs = self._evaluator.run(None, inputs)
        except EVALUATOR_ERRORS as error:
            raise CannotRunError(f"{self.name} cannot run this model ({_line(error)})") from None
        return dict(zip(self._evaluator.output_names, outputs, strict=True))


class OnnxRuntime:
    """ONNX Runtime on one CPU thread, so that it is the same every time."""

    def __init__(self, model: onnx.ModelProto, base_dir: Path) -> None:
        """Raises CannotRunError when ONNX Runtime cannot run the model."""
        complete = _with_weights(model, base_dir)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(
                complete.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except _ORT_ERRORS as error:
            raise CannotRunError(f"ONNX Runtime cannot run this model ({_line(error)})") from None
        self.name = f"onnxruntime {onnxruntime.__version__}"

    def __call__(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """All outputs by name. Raises CannotRunError when the run fails."""
        names = [output.name for output in self._session.get_outputs()]
        wanted = {i.name for i in self._session.get_inputs()}
        feeds = {name: np.asarray(array) for name, array in inputs.items() if name in wanted}
        try:
            return dict(zip(names, self._session.run(names, feeds), strict=True))
        except _ORT_ERRORS as error:
            raise CannotRunError(f"ONNX Runtime cannot run this model ({_line(error)})") from None


def _with_weights(model: onnx.ModelProto, base_dir: Path) -> onnx.ModelProto:
    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    onnx.load_external_data_for_model(complete, str(base_dir))
    return complete


# In order of preference.
SECOND_IMPLEMENTATIONS: tuple[Callable[[onnx.ModelProto, Path], SecondImplementation], ...] = (
    OnnxRuntime,
    OnnxReference,
)


def with_all_values(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every intermediate value as an output too."""
    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    outputs = {output.name for output in model.graph.output}
    complete.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name)
        for node in model.graph.node
        for name in node.output
        if name and name not in outputs
    )
    return complete


_ORT_ERRORS: tuple[type[Exception], ...] = (
    RuntimeError,
    ValueError,
    *(
        kind
        for kind in vars(onnxruntime.capi.onnxruntime_pybind11_state).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ),
)


@dataclass(frozen=True)
class Comparison:
    """Worst differences to a second implementation, and what outputs may differ elsewhere."""

    errors: tuple[OutputError, ...]
    tolerances: tuple[Tolerance, ...]
    # Why no second implementation ran the model, where none did; then there are no errors.
    refusals: tuple[str, ...] = ()


def compare_with(
    second: RunFunction,
    against: str,
    contract: Contract,
    known: Known,
    turns: int,
    allowed: Sequence[Tolerance],
    exact: Callable[[], RunFunction],
) -> Comparison:
    """Hold all outputs and heads of all seeds against a second implementation.

    Where they differ by more than is `allowed`, both are held against what `exact` gives: some
    models make much of each rounding, and then neither may be blamed alone. Raises ModeldError
    naming output and difference where the second implementation is nearer to the truth.
    """
    limits = {tolerance.output: float(tolerance.absolute) for tolerance in allowed}
    worst: dict[str, tuple[float, float]] = {}
    for seed, inputs in known.inputs.items():
        expected = run_turns(second, contract, inputs, turns)
        _require_same_kind(known.outputs[seed], expected, against)
        references = with_heads(contract, expected)
        truth: dict[str, Array] = {}
        for name, found in with_heads(contract, known.outputs[seed]).items():
            reference = references[name]
            difference = largest_difference(found, reference)
            relative = difference / value_range(reference)
            if difference > limits[name]:
                failure = ModeldError(
                    f"gate failed: output {name} differs from {against} by {difference:.3g} "
                    f"({relative:.2g} of its range, seed {seed}), allowed {limits[name]:.3g}; "
                    "the model is not computed correctly here"
                )
                truth = truth or _truth(exact, contract, inputs, turns, failure)
                if not _is_as_near(found, reference, truth[name]):
                    raise failure
            before = worst.get(name, (0.0, 0.0))
            worst[name] = (max(before[0], difference), max(before[1], relative))
    return Comparison(
        tuple(
            OutputError(name, against, f"{absolute:.1e}", f"{relative:.1e}")
            for name, (absolute, relative) in worst.items()
        ),
        tuple(_with_room(tolerance, worst[tolerance.output][0]) for tolerance in allowed),
    )


def _require_same_kind(
    outputs: Mapping[str, Array], expected: Mapping[str, Array], against: str
) -> None:
    for name, found in outputs.items():
        reference = np.asarray(expected[name])
        if reference.shape != found.shape or reference.dtype != found.dtype:
            raise ModeldError(
                f"gate failed: output {name} is {found.dtype}{list(found.shape)}, {against} "
                f"gives {reference.dtype}{list(reference.shape)}"
            )


def _truth(
    exact: Callable[[], RunFunction],
    contract: Contract,
    inputs: Mapping[str, Array],
    turns: int,
    failure: ModeldError,
) -> dict[str, Array]:
    try:
        return with_heads(contract, run_turns(exact(), contract, inputs, turns))
    except CannotRunError:
        raise failure from None


def _is_as_near(found: Array, reference: Array, truth: Array) -> bool:
    ours, theirs = largest_difference(found, truth), largest_difference(reference, truth)
    return bool(np.isfinite(theirs)) and ours <= _AS_NEAR * theirs


def _with_room(tolerance: Tolerance, difference: float) -> Tolerance:
    """What two correct implementations differ by here, another device may differ by too."""
    room = f"{_ROOM * difference:.1e}"
    return (
        tolerance if float(room) <= float(tolerance.absolute) else replace(tolerance, absolute=room)
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
