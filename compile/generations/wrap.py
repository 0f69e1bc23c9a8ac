"""From a network of a past generation to one graph with today's interface.

State holds the past only, oldest row first; a turn reads it, appends the present row and drops the
oldest. The order in which a host did this is kept: frames and desires enter before the network
runs, features and curvatures of this turn are read by the next one (a policy reads this turn's
feature, which vision has made by then).
"""

import numpy as np
import onnx
from onnx import helper

from compile.contract import IMAGE_INPUT, IMAGE_SHAPE, OUTPUT, STATE_PREFIX
from compile.generations.graph import Builder
from compile.generations.network import Network
from compile.generations.part import Part
from compile.generations.rules import (
    CONSTANTS,
    CURVATURE,
    CURVATURES,
    CURVATURES_SHAPE,
    DESIRE,
    DESIRED_CURVATURE,
    DESIRES,
    FEATURES,
    FRAME,
    HIDDEN_STATE,
    HOST_SHAPE,
    PLANNER,
    PLANNER_COLUMNS,
    PLANNER_POINT,
    PLANNER_SHAPE,
    PLANNER_SOLUTION,
    PLANNER_WEIGHT,
)
from compile.metadata import METADATA_KEY
from compile.reference.metadata import encode_slices
from modeld.errors import ModeldError
from modeld.manifest import Tensor

# Of the graph that is made; files may be older.
_LEAST_IR_VERSION = 8


def wrap(network: Network) -> onnx.ModelProto:
    """The network as a model of today's interface; its parts' graphs are copied into it.

    Raises ModeldError when two parts were exported for different versions of the operators.
    """
    opsets = _opsets(network)
    graph = _Wrapping(network, opsets[""]).graph()
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
        ir_version=max(_LEAST_IR_VERSION, *(part.model.ir_version for part in network.parts)),
    )
    slices = {name: slice(start, stop) for name, (start, stop) in network.heads.items()}
    helper.set_model_props(model, {METADATA_KEY: encode_slices(slices)})
    return model


def _opsets(network: Network) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in network.parts:
        for opset in part.model.opset_import:
            domain = "" if opset.domain == "ai.onnx" else opset.domain
            if found.setdefault(domain, opset.version) != opset.version:
                raise ModeldError(
                    f"{part.name} is of opset {opset.version}, {network.first.name} of "
                    f"{found[domain]}; export all parts with one opset"
                )
    return found


class _Wrapping:
    """One graph being made. Values that are fed to several parts are made once."""

    def __init__(self, network: Network, opset: int) -> None:
        self._net = network
        self._build = Builder(opset)
        self._fed: dict[tuple[str, str], str] = {}
        self._states: list[Tensor] = []
        self._vector = ""
        self._hidden = ""

    def graph(self) -> onnx.GraphProto:
        net, build = self._net, self._build
        build.input(Tensor(IMAGE_INPUT, IMAGE_SHAPE, "uint8"))
        prefix = "vision/" if net.policies else "model/"
        vectors = [self._run(net.first, prefix)]
        if net.policies:
            self._hidden = self._hidden_state(vectors[0])
            for number, part in enumerate(net.policies, 1):
                vectors.append(self._run(part, "policy/" if number == 1 else f"policy{number}/"))
            build.join(OUTPUT, vectors, axis=1)
        else:
            build.node("Identity", OUTPUT, vectors)
            self._hidden = self._hidden_state(OUTPUT)
        size = sum(part.size for part in net.parts)
        build.output(Tensor(OUTPUT, (1, size), "float32"))
        self._feed_back()
        return build.graph(net.generation)

    def _run(self, part: Part, prefix: str) -> str:
        """Add a part with all its inputs; its output vector as float32."""
        names = {name: self._feed(tensor) for name, tensor in part.inputs.items()}
        # In a network of one file nodes keep the names that its author knows.
        nodes = prefix if self._net.policies else ""
        self._build.graph_of(part.model, names, prefix, nodes)
        vector = names.get(part.output.name, prefix + part.output.name)
        if part.output.dtype == "float32":
            return vector
        return self._build.cast(f"feed/{prefix}{OUTPUT}", vector, "float32")

    def _feed(self, tensor: Tensor) -> str:
        """The value for a part's input, of the type it wants."""
        # One queue under two names.
        name = DESIRES[0] if tensor.name in DESIRES else tensor.name
        own = "uint8" if name in self._net.images else "float32"
        if (name, own) not in self._fed:
            self._fed[name, own] = self._make(name)
        key = (name, tensor.dtype)
        if key not in self._fed:
            cast = self._build.cast(f"feed/{name}.{tensor.dtype}", self._fed[name, own], key[1])
            self._fed[key] = cast
        return self._fed[key]

    def _make(self, name: str) -> str:
        if name in self._net.images:
            return self._frames(name, self._net.images.index(name))
        if name == DESIRES[0]:
            return self._desires(name)
        if name == FEATURES:
            return self._features()
        if name == CURVATURE:
            return self._curvatures()
        if name in CONSTANTS:
            return self._build.constant(f"feed/{name}", CONSTANTS[name])
        if name == CURVATURES:
            state = self._state(name, (CURVATURES_SHAPE[1], 1))
            return self._build.reshape(f"feed/{name}", state, CURVATURES_SHAPE)
        if name == PLANNER:
            return self._state(name, PLANNER_SHAPE)
        return self._build.input(Tensor(name, HOST_SHAPE, "float32"))

    def _state(self, name: str, shape: tuple[int, ...], dtype: str = "float32") -> str:
        tensor = Tensor(f"state_{name}", shape, dtype)
        self._states.append(tensor)
        return self._build.input(tensor)

    def _next(self, name: str, new: str) -> None:
        """End of a state's turn: the oldest row leaves, `new` (one row) comes."""
        build = self._build
        tensor = next(state for state in self._states if state.name == f"state_{name}")
        made, rows = STATE_PREFIX + tensor.name, tensor.shape[0]
        if rows == 1:
            build.node("Identity", made, [new])
        else:
            kept = build.rows(f"{tensor.name}.kept", tensor.name, 1, rows)
            build.join(made, [kept, new])
        build.output(Tensor(made, tensor.shape, tensor.dtype))

    def _frames(self, name: str, camera: int) -> str:
        """(1, 12, 128, 256) u8: the frame of a step ago and the present one."""
        build, rows = self._build, self._net.frames_per_step
        new = build.rows(f"feed/{name}.new", IMAGE_INPUT, camera, camera + 1)
        state = self._state(name, (rows, *FRAME), "uint8")
        oldest = build.rows(f"feed/{name}.old", state, 0, 1) if rows > 1 else state
        self._next(name, new)
        return build.join(f"feed/{name}", [oldest, new], axis=1)

    def _desires(self, name: str) -> str:
        """(1, steps, 8): a step holds the pulses of all its frames."""
        build, steps, skip = self._build, self._net.steps, self._net.frames_per_step
        new = build.input(Tensor(name, (1, DESIRE), "float32"))
        state = self._state(name, (steps * skip - 1, DESIRE))
        queue = build.join(f"feed/{name}.queue", [state, new])
        self._next(name, new)
        if skip > 1:
            blocks = build.reshape(f"feed/{name}.blocks", queue, (steps, skip, DESIRE))
            queue = build.greatest(f"feed/{name}.steps", blocks, 1)
        return build.reshape(f"feed/{name}", queue, (1, steps, DESIRE))

    def _features(self) -> str:
        """(1, T, …): past features, and for a policy the present one."""
        build, net = self._build, self._net
        past = net.steps - 1
        rows = past * net.frames_per_step
        state = self._state(FEATURES, (rows, *net.row))
        sampled = state
        if net.frames_per_step > 1:
            sampled = build.rows(f"feed/{FEATURES}.past", state, 0, rows, net.frames_per_step)
        if net.policies:
            sampled = build.join(f"feed/{FEATURES}.all", [sampled, self._hidden])
        steps = net.steps if net.policies else past
        return build.reshape(f"feed/{FEATURES}", sampled, (1, steps, *net.row))

    def _curvatures(self) -> str:
        """(1, steps, 1): the newest is last turn's, then every step before."""
        net = self._net
        rows = (net.steps - 1) * net.frames_per_step + 1
        sampled = state = self._state(CURVATURE, (rows, 1))
        if net.frames_per_step > 1:
            sampled = self._build.rows(
                f"feed/{CURVATURE}.steps", state, 0, rows, net.frames_per_step
            )
        return self._build.reshape(f"feed/{CURVATURE}", sampled, (1, net.steps, 1))

    def _hidden_state(self, vector: str) -> str:
        """One row of the feature queue, from a vector that begins as the first part's."""
        start, stop = self._net.heads[HIDDEN_STATE]
        flat = self._build.rows(f"feed/{FEATURES}.flat", vector, start, stop, axis=1)
        return self._build.reshape(f"feed/{FEATURES}.new", flat, (1, *self._net.row))

    def _feed_back(self) -> None:
        build, heads = self._build, self._net.heads
        inputs = {name for name, _ in self._fed}
        self._next(FEATURES, self._hidden)
        for name in (CURVATURE, CURVATURES):
            if name in inputs:
                start = heads[DESIRED_CURVATURE][0]
                new = build.rows(f"feed/{name}.new", OUTPUT, start, start + 1, axis=1)
                self._next(name, new)
        if PLANNER in inputs:
            self._next(PLANNER, self._planned(heads[PLANNER_SOLUTION][0]))

    def _planned(self, start: int) -> str:
        """(1, 4): zeros, and the solution's last columns one frame ahead, interpolated."""
        build, half = self._build, PLANNER_COLUMNS // 2
        points = []
        for side, point in (("before", PLANNER_POINT), ("after", PLANNER_POINT + 1)):
            first = start + PLANNER_COLUMNS * point + half
            points.append(build.rows(f"feed/{PLANNER}.{side}", OUTPUT, first, first + half, axis=1))
        before, after = points
        step = build.node("Sub", f"feed/{PLANNER}.step", [after, before])
        weight = build.constant(f"feed/{PLANNER}.weight", np.array(PLANNER_WEIGHT, np.float32))
        part = build.node("Mul", f"feed/{PLANNER}.part", [step, weight])
        planned = build.node("Add", f"feed/{PLANNER}.planned", [before, part])
        zeros = build.constant(f"feed/{PLANNER}.zeros", np.zeros((1, half), np.float32))
        return build.join(f"feed/{PLANNER}.new", [zeros, planned], axis=1)
