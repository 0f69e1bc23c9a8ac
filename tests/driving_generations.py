"""Small networks with the interfaces of past driving networks, and the host they were made for.

Names, shapes and output slices are those of networks that openpilot and its forks have shipped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx_models import encode_slices

Array = npt.NDArray[np.generic]
Shape = tuple[int, ...]
Run = Callable[[dict[str, Array]], Array]

FED_BACK = ("hidden_state", "desired_curvature", "lat_planner_solution")
FLOAT, HALF, BYTE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8


@dataclass(frozen=True)
class File:
    """One ONNX file: inputs, heads of the output vector in order with their widths, types."""

    inputs: Mapping[str, Shape]
    heads: Mapping[str, int]
    images: int = BYTE
    floats: int = FLOAT
    opset: int = 17

    @property
    def size(self) -> int:
        return sum(self.heads.values())

    @property
    def slices(self) -> dict[str, slice]:
        found, start = {}, 0
        for name, width in self.heads.items():
            found[name] = slice(start, start + width)
            start += width
        return found


def write(file: File, path: Path) -> Path:
    """A network that only copies: its output repeats a sample of all inputs until it is full."""
    nodes, constants, samples = [], [], []
    for name, shape in file.inputs.items():
        source, steps = name, _strides(shape)
        if steps:
            bounds = np.array([[axis, start, 2**31, step] for axis, start, step in steps]).T
            for part, values in zip(("axes", "starts", "ends", "steps"), bounds, strict=True):
                constants.append(numpy_helper.from_array(values.copy(), f"{name}.{part}"))
            parts = [f"{name}.{part}" for part in ("starts", "ends", "axes", "steps")]
            nodes.append(helper.make_node("Slice", [name, *parts], [f"{name}.some"]))
            source = f"{name}.some"
        nodes.append(helper.make_node("Cast", [source], [f"{name}.float"], to=file.floats))
        nodes.append(helper.make_node("Flatten", [f"{name}.float"], [f"{name}.flat"]))
        samples.append(f"{name}.flat")
    nodes.append(helper.make_node("Concat", samples, ["sample"], axis=1))
    counts = [int(np.prod([len(r) for r in _picked(shape)])) for shape in file.inputs.values()]
    assert sum(counts) <= file.size
    # Heads that are fed back repeat the first input, lest a circle of zeros goes on for ever.
    for source, count in (("sample", sum(counts)), (samples[0], counts[0])):
        repeats = np.array([1, -(-file.size // count)])
        constants.append(numpy_helper.from_array(repeats, f"{source}.repeats"))
        nodes.append(helper.make_node("Tile", [source, f"{source}.repeats"], [f"{source}.many"]))
    constants.append(numpy_helper.from_array(np.array([1]), "axis"))
    for head, where in file.slices.items():
        source = samples[0] if head in FED_BACK else "sample"
        bounds = [f"{head}.start", f"{head}.stop"]
        for bound, value in zip(bounds, (where.start, where.stop), strict=True):
            constants.append(numpy_helper.from_array(np.array([value]), bound))
        nodes.append(helper.make_node("Slice", [f"{source}.many", *bounds, "axis"], [head]))
    nodes.append(helper.make_node("Concat", list(file.slices), ["outputs"], "outputs", axis=1))
    types = {name: file.images if "img" in name else file.floats for name in file.inputs}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, types[n], s) for n, s in file.inputs.items()],
        [helper.make_tensor_value_info("outputs", file.floats, (1, file.size))],
        constants,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", file.opset)], ir_version=8
    )
    helper.set_model_props(model, {"output_slices": encode_slices(file.slices)})
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def write_all(files: list[File], folder: Path) -> list[Path]:
    """The files of a network, vision first."""
    names = ("driving.onnx", "on_policy.onnx", "off_policy.onnx")
    return [write(file, folder / name) for file, name in zip(files, names, strict=False)]


def session_of(model: Path | bytes) -> onnxruntime.InferenceSession:
    """ONNX Runtime on one thread: the networks are too small for more."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options)


def run_of(path: Path) -> Run:
    """The output vector of a file, by ONNX Runtime."""
    session = session_of(path)
    return lambda feeds: session.run(["outputs"], feeds)[0]


def drawn(rng: np.random.Generator) -> dict[str, Array]:
    """What the runtime gives in one frame."""
    desire = rng.integers(1, 200, (1, 8)) * (rng.random((1, 8)) < 0.2)
    given: dict[str, Array] = {
        "new_img": rng.integers(0, 256, (2, 6, 128, 256), np.uint8),
        "desire": desire.astype(np.float32),
    }
    for name in ("traffic_convention", "action_t", "lateral_control_params"):
        given[name] = rng.random((1, 2), np.float32)
    return given


def _strides(shape: Shape) -> list[tuple[int, int, int]]:
    """Axis, start and step of a sample that has a few elements of every row."""
    if len(shape) == 4 and shape[-1] == 256:
        return [(2, 3, 32), (3, 5, 64)]
    if len(shape) == 4:
        return [(2, 5, 16), (3, 7, 128)]
    if shape[-1] > 100_000:
        return [(1, 11, 32768)]
    return [(2, 7, 64)] if shape[-1] == 512 else []


def _picked(shape: Shape) -> list[range]:
    ranges = [range(count) for count in shape]
    for axis, start, step in _strides(shape):
        ranges[axis] = ranges[axis][start::step]
    return ranges


class Host:
    """What the host gave to such networks, restated: every value by the frame it belongs to.

    `inputs` are those of all files; a network of several files reads the feature of this frame.
    """

    def __init__(self, files: list[File]) -> None:
        self.inputs = {name: shape for file in files for name, shape in file.inputs.items()}
        self.types = {
            name: np.dtype(
                helper.tensor_dtype_to_np_dtype(file.images if "img" in name else file.floats)
            )
            for file in files
            for name in file.inputs
        }
        self.split = len(files) > 1
        steps = next(shape[1] for name, shape in self.inputs.items() if "desire" in name[:6])
        self.steps, self.skip = steps, 1 if steps == 100 else 4
        self.frames: list[Array] = []
        self.desires: list[Array] = []
        self.features: list[Array] = []
        self.curvatures: list[Array] = []
        self.planned = np.zeros(4)

    def see(self, frames: Array, desire: Array, others: Mapping[str, Array]) -> dict[str, Array]:
        """A frame begins; all inputs but those that need what the network says about it."""
        self.frames.append(frames)
        self.desires.append(desire)
        now = len(self.frames) - 1
        given: dict[str, Array] = dict(others)
        for name, shape in self.inputs.items():
            if "img" in name:
                pair = [_at(self.frames, now - self.skip), self.frames[now]]
                given[name] = np.concatenate(pair, axis=1)[[1 if "big" in name else 0]]
            elif name.startswith("desire"):
                given[name] = np.stack([self._pulse(now, k) for k in range(self.steps)])[None]
            elif name == "prev_desired_curv":
                ages = [1 + self.skip * (self.steps - 1 - k) for k in range(self.steps)]
                given[name] = np.array([[[_at(self.curvatures, now - a, 0.0)] for a in ages]])
            elif name == "prev_desired_curvs":
                given[name] = np.array(
                    [[_at(self.curvatures, now - 20 + k, 0.0) for k in range(20)]]
                )
            elif name == "lat_planner_state":
                given[name] = self.planned[None]
            elif name.startswith("nav_"):
                given[name] = np.zeros(shape)
            elif name == "driving_style":
                given[name] = np.array([[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]])
        if not self.split:
            given["features_buffer"] = self._past(now)
        return self._typed(given)

    def understand(self, hidden_state: Array) -> dict[str, Array]:
        """Vision has spoken: what its policies get besides."""
        self.features.append(hidden_state)
        return self._typed({"features_buffer": self._past(len(self.features) - 1)})

    def remember(self, heads: Mapping[str, Array]) -> None:
        """The end of the frame."""
        if not self.split:
            self.features.append(heads["hidden_state"])
        if "desired_curvature" in heads:
            self.curvatures.append(heads["desired_curvature"][0])
        if "lat_planner_solution" in heads:
            points = heads["lat_planner_solution"][:132].reshape(33, 4)
            times = 10.0 * (np.arange(33) / 32) ** 2
            self.planned[2:] = [np.interp(0.05, times, points[:, column]) for column in (2, 3)]

    def _pulse(self, now: int, step: int) -> Array:
        last = now - self.skip * (self.steps - 1 - step)
        return np.max([_at(self.desires, last - age) for age in range(self.skip)], axis=0)

    def _past(self, now: int) -> Array:
        _, steps, *row = self.inputs["features_buffer"]
        newest = 0 if self.split else self.skip
        ages = [newest + self.skip * (steps - 1 - k) for k in range(steps)]
        blank = np.zeros(int(np.prod(row)))
        return np.stack([_at(self.features, now - a, blank) for a in ages]).reshape(1, steps, *row)

    def _typed(self, given: Mapping[str, Array]) -> dict[str, Array]:
        return {n: np.asarray(a).astype(self.types[n]) for n, a in given.items() if n in self.types}


def _at(history: list[Array], frame: int, blank: Array | float | None = None) -> Array:
    """The value of a frame; zeros before the first."""
    if frame >= 0:
        return history[frame]
    return np.asarray(blank) if blank is not None else np.zeros_like(history[0])


def host_turn(host: Host, files: list[File], runs: list[Run], given: Mapping[str, Array]) -> Array:
    """One frame of the network in `runs` (one for each file) as the host ran it; (1, N)."""
    others = {name: array for name, array in given.items() if name not in ("new_img", "desire")}
    inputs = host.see(given["new_img"], given["desire"][0], others)
    vectors = []
    for file, run in zip(files, runs, strict=True):
        feeds = {name: inputs[name] for name in file.inputs}
        vectors.append(run(feeds).astype(np.float32))
        if host.split and len(vectors) == 1:
            inputs |= host.understand(vectors[0][0, file.slices["hidden_state"]])
    heads = {
        name: vector[0, where]
        for file, vector in zip(files, vectors, strict=True)
        for name, where in file.slices.items()
    }
    host.remember(heads)
    return np.concatenate(vectors, axis=1)
