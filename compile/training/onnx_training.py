"""ONNX training graphs (`ai.onnx.preview.training`): Adam, Adagrad and Momentum, step by step.

Such a graph takes parameters and moments as inputs and gives them back changed; nothing stays
inside. `OnnxTraining` keeps them between steps, and its snapshots are those of other optimizers.

The graph runs through tinygrad's OnnxRunner, with operators of ours. tinygrad's own (0.14.0) write
to the caller's tensors, apply an update twice when outputs are computed one by one, add Adam's
epsilon at another place than ONNX, take 0 for attributes left out, and never see the step number
change after the first call.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import onnx
from tinygrad import Device, Tensor
from tinygrad.nn.onnx import OnnxRunner

from compile.training.matching import require_match
from compile.training.optimizers import OptimizerRecord, Scalar
from compile.training.placement import on_devices, placement_of, read, write
from compile.training.randomness import random_state, set_random_state
from compile.training.record import FORMAT_VERSION, ParameterRecord, RunRecord
from compile.training.snapshot import Snapshot
from compile.training.stored import dtype_name
from compile.values import numpy_dtype
from modeld.errors import ModeldError

Array: TypeAlias = np.ndarray[Any, Any]
_DOMAIN = "ai.onnx.preview.training"
# Moments in the order of an operator's inputs, by their names in the operator's specification.
_MOMENTS = {"Adam": ("V", "H"), "Adagrad": ("H",), "Momentum": ("V",)}


@dataclass(frozen=True, slots=True)
class _Update:
    """A node: what it updates. `results` maps each parameter and moment to the output for it."""

    op: str
    attributes: dict[str, Any]
    rate: str
    count: str
    parameters: tuple[str, ...]
    moments: dict[str, tuple[str, ...]]
    results: dict[str, str]


class OnnxTraining:
    """A training graph with its parameters and moments, which must be inputs of the graph.

    `values` gives the parameters by input name, and moments that do not start at zero.
    """

    def __init__(self, model: onnx.ModelProto, values: Mapping[str, Array]) -> None:
        model = _with_defaults(model)
        self._updates = [_update(node) for node in model.graph.node if node.domain == _DOMAIN]
        if not self._updates:
            raise ModeldError(f"the model has no node of {_DOMAIN}; it is no training graph")
        self._runner = OnnxRunner(Tensor(model.SerializeToString(), device=Device.DEFAULT))
        self._runner.onnx_ops = self._runner.onnx_ops | _OPERATORS
        inputs = {i.name: i.type.tensor_type for i in model.graph.input}
        self._state = {
            name: _initial(name, inputs, values) for u in self._updates for name in u.results
        }
        self._integers = {u.count: _numpy_type(inputs[u.count].elem_type) for u in self._updates}
        self._rates = {u.rate: _numpy_type(inputs[u.rate].elem_type) for u in self._updates}
        self.rate = 0.0
        self.step = 0

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The parameters by input name."""
        return {name: self._state[name] for u in self._updates for name in u.parameters}

    def run(self, inputs: Mapping[str, Tensor], rate: float) -> dict[str, Tensor]:
        """One step at the learning rate `rate`; returns the outputs that are no state.

        `inputs` are the graph's other inputs: the gradients, or what they come from. If it raises
        nothing has changed.
        """
        # The runner remembers integer inputs by name for ever.
        self._runner._python_const_cache.clear()
        counts = {name: _scalar(self.step, kind) for name, kind in self._integers.items()}
        rates = {name: _scalar(rate, kind) for name, kind in self._rates.items()}
        outputs: dict[str, Tensor] = self._runner({**self._state, **counts, **rates, **inputs})
        Tensor.realize(*outputs.values())
        results = dict(chain.from_iterable(u.results.items() for u in self._updates))
        self._state = {name: outputs.pop(results[name]) for name in self._state}
        self.rate, self.step = rate, self.step + 1
        return outputs

    def snapshot(self, position: Mapping[str, Any] | None = None) -> Snapshot:
        """All that the next step needs."""
        record = self._record(dict(position or {}))
        state = {
            (number, slot, parameter): read(self._state[moment])
            for number, u in enumerate(self._updates)
            for slot, moments in u.moments.items()
            for parameter, moment in zip(u.parameters, moments, strict=True)
        }
        return Snapshot(record, {n: read(t) for n, t in self.parameters.items()}, state)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot; ModeldError naming both sides when it is of another graph."""
        require_match(snapshot.record, self._record({}))
        for name, tensor in self.parameters.items():
            write(tensor, snapshot.parameters[name])
        for number, u in enumerate(self._updates):
            for slot, moments in u.moments.items():
                for parameter, moment in zip(u.parameters, moments, strict=True):
                    write(self._state[moment], snapshot.state[number, slot, parameter])
        set_random_state(snapshot.record.random)
        self.step = snapshot.record.step
        self.rate = snapshot.record.optimizers[0].scalars["lr"].value

    def _record(self, position: dict[str, Any]) -> RunRecord:
        return RunRecord(
            format_version=FORMAT_VERSION,
            tinygrad=version("tinygrad"),
            devices={},
            step=self.step,
            parameters=tuple(
                ParameterRecord(name, dtype_name(t.dtype), tuple(t.shape), placement_of(t))
                for name, t in self.parameters.items()
            ),
            grouped=len(self._updates) > 1,
            optimizers=tuple(self._optimizer(u) for u in self._updates),
            schedule=None,
            random=random_state(),
            position=position,
        )

    def _optimizer(self, update: _Update) -> OptimizerRecord:
        moment = next(iter(update.moments.values()))[0]
        return OptimizerRecord(
            family=f"{_DOMAIN}.{update.op}",
            hyperparameters=update.attributes,
            state_dtype=dtype_name(self._state[moment].dtype),
            fused=False,
            placement=on_devices(Device.DEFAULT),
            parameters=update.parameters,
            slots=tuple(update.moments),
            scalars={"lr": Scalar(str(self._rates[update.rate]), self.rate)},
        )


def _with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which the attributes left out have the values that their operator gives them."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        if node.domain == _DOMAIN:
            if node.op_type not in _MOMENTS:
                raise ModeldError(f"{node.op_type} is no optimizer; use {', '.join(_MOMENTS)}")
            present = {attribute.name for attribute in node.attribute}
            schema = onnx.defs.get_schema(node.op_type, 1, _DOMAIN)
            defaults = (a.default_value for n, a in schema.attributes.items() if n not in present)
            node.attribute.extend(default for default in defaults if default.name)
    return copy


def _update(node: onnx.NodeProto) -> _Update:
    slots = _MOMENTS[node.op_type]
    rate, count, *rest = node.input
    size = len(rest) // (2 + len(slots))
    groups = [tuple(rest[i : i + size]) for i in range(0, len(rest), size)]
    parameters, moments = groups[0], dict(zip(slots, groups[2:], strict=True))
    updated = chain(parameters, *moments.values())
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return _Update(
        node.op_type,
        {k: v.decode() if isinstance(v, bytes) else v for k, v in sorted(attributes.items())},
        rate,
        count,
        parameters,
        moments,
        dict(zip(updated, node.output, strict=True)),
    )


def _initial(name: str, inputs: Mapping[str, Any], values: Mapping[str, Array]) -> Tensor:
    if name not in inputs:
        raise ModeldError(f"{name} is updated but is no input of the graph; make it one")
    shape = tuple(dim.dim_value for dim in inputs[name].shape.dim)
    array = values.get(name, np.zeros(shape, _numpy_type(inputs[name].elem_type)))
    if array.shape != shape or array.dtype != _numpy_type(inputs[name].elem_type):
        raise ModeldError(
            f"{name} is {array.dtype} {array.shape}, the graph wants "
            f"{_numpy_type(inputs[name].elem_type)} {shape}"
        )
    return Tensor(np.ascontiguousarray(array)).realize()


def _scalar(value: float, dtype: np.dtype[Any]) -> Tensor:
    """A scalar with memory; tinygrad would compile a plain one into the kernels."""
    return Tensor(np.array([value], dtype)).realize().reshape(())


def _numpy_type(elem_type: int) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    return kind


def _factor(value: float, like: Tensor) -> Tensor:
    """A number that depends on the step, kept out of the kernels so that they stay the same."""
    return _scalar(value, numpy_dtype(like.dtype))


def _adam(
    rate: Tensor, count: int, x: Tensor, g: Tensor, v: Tensor, h: Tensor, **options: float
) -> tuple[Tensor, ...]:
    alpha, beta = options["alpha"], options["beta"]
    gradient = options["norm_coefficient"] * x + g
    v = alpha * v + (1 - alpha) * gradient
    h = beta * h + (1 - beta) * gradient * gradient
    correction = math.sqrt(1 - beta**count) / (1 - alpha**count) if count > 0 else 1.0
    x = x - rate * _factor(correction, x) * v / (h.sqrt() + options["epsilon"])
    return (1 - options["norm_coefficient_post"]) * x, v, h


def _adagrad(
    rate: Tensor, count: int, x: Tensor, g: Tensor, h: Tensor, **options: float
) -> tuple[Tensor, ...]:
    gradient = options["norm_coefficient"] * x + g
    h = h + gradient * gradient
    rate = rate / _factor(1 + count * options["decay_factor"], x)
    return x - rate * gradient / (h.sqrt() + options["epsilon"]), h


def _momentum(
    rate: Tensor, count: int, x: Tensor, g: Tensor, v: Tensor, *, mode: str, **options: float
) -> tuple[Tensor, ...]:
    alpha = options["alpha"]
    gradient = options["norm_coefficient"] * x + g
    v = alpha * v + _factor(options["beta"] if count > 0 else 1.0, x) * gradient
    return x - rate * (v if mode == "standard" else gradient + alpha * v), v


def _over_groups(operator: Callable[..., tuple[Tensor, ...]], size: int) -> Callable[..., Any]:
    """The operator on several parameters: inputs and outputs are grouped by kind."""

    def run(rate: Tensor, count: int, *inputs: Tensor, **options: Any) -> tuple[Tensor, ...]:
        groups = len(inputs) // size
        results = [operator(rate, count, *inputs[i::groups], **options) for i in range(groups)]
        return tuple(chain.from_iterable(zip(*results, strict=True)))

    return run


# https://github.com/onnx/onnx/blob/main/docs/Operators.md, ai.onnx.preview.training, version 1.
_OPERATORS = {
    "Adam": _over_groups(_adam, 4),
    "Adagrad": _over_groups(_adagrad, 3),
    "Momentum": _over_groups(_momentum, 3),
}
