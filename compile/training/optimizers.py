"""What a tinygrad optimizer keeps between steps, read from and written to by parameter name.

tinygrad has two optimizers, LARS and LAMB, and makes the others by setting them up: SGD and Muon
are LARS, Adam and AdamW are LAMB. An optimizer keeps one tensor per slot and parameter, or, when
fused, one flat tensor per slot in which the parameters follow one another.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.nn.optim import LAMB, LARS, Optimizer, OptimizerGroup

from compile.training.placement import (
    Placement,
    is_pending,
    on_devices,
    read,
    write,
)
from compile.training.stored import StoredTensor, dtype_name, dtype_named
from modeld.errors import ModeldError


@dataclass(frozen=True, slots=True)
class Family:
    """An optimizer class: what fixes its arithmetic, and its state (attribute names)."""

    hyperparameters: tuple[str, ...]
    slots: tuple[str, ...]
    scalars: tuple[str, ...]


# tinygrad 0.14.0, nn/optim.py.
FAMILIES: dict[str, Family] = {
    "LARS": Family(
        (
            "momentum",
            "wd",
            "ns_steps",
            "ns_coefficients",
            "nesterov",
            "classic",
            "pre_wd",
            "tcoef",
        ),
        ("b",),
        ("lr",),
    ),
    "LAMB": Family(("b1", "b2", "eps", "wd", "adam"), ("m", "v"), ("lr", "b1_t", "b2_t")),
}
_CLASSES = {LARS: "LARS", LAMB: "LAMB"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number kept on the device, exact as JSON, and its element type."""

    dtype: str
    value: float


@dataclass(frozen=True, slots=True)
class OptimizerRecord:
    """One optimizer: class, options, the parameters it was given in order, and its numbers.

    `slots` are the slots in use (without momentum LARS uses none). `scalars` holds the learning
    rate `lr`, and for LAMB the bias powers `b1_t` = b1^step and `b2_t` = b2^step.
    """

    family: str
    hyperparameters: dict[str, Any]
    state_dtype: str
    fused: bool
    placement: Placement
    parameters: tuple[str, ...]
    slots: tuple[str, ...]
    scalars: dict[str, Scalar]

    @property
    def kind(self) -> str:
        """The name it is known by: SGD, LARS, Muon, Adam, AdamW or LAMB; else its family."""
        options = self.hyperparameters
        if self.family not in FAMILIES:
            return self.family
        if self.family == "LAMB":
            if not options["adam"]:
                return "LAMB"
            return "AdamW" if options["wd"] else "Adam"
        if options["ns_coefficients"]:
            return "Muon"
        return "SGD" if options["tcoef"] == 0 and options["pre_wd"] else "LARS"

    @property
    def trust_ratio(self) -> bool:
        """Whether its steps depend on the norm of each parameter, or of all of them when fused."""
        return self.kind in ("LARS", "LAMB")


def members(optimizer: Optimizer) -> list[Optimizer]:
    """The optimizers of a group in order, also of groups in groups; else the optimizer itself."""
    if isinstance(optimizer, OptimizerGroup):
        return [member for inner in optimizer.optimizers for member in members(inner)]
    return [optimizer]


def describe(optimizer: Optimizer, names: Mapping[int, str]) -> OptimizerRecord:
    """Describe one optimizer; `names` gives the name of each parameter by the tensor's `id`.

    Its scalars must be computed, see `materialize`. Raises ModeldError for a class unknown here, a
    parameter without a name, or a learning rate that is compiled into the kernels.
    """
    family = _family(optimizer)
    attributes = FAMILIES[family]
    slots = tuple(slot for slot in attributes.slots if getattr(optimizer, slot))
    options = {name: getattr(optimizer, name) for name in attributes.hyperparameters}
    return OptimizerRecord(
        family=family,
        # As JSON gives them back.
        hyperparameters={k: list(v) if isinstance(v, tuple) else v for k, v in options.items()},
        state_dtype=dtype_name(optimizer.param_dtype),
        fused=bool(optimizer.fused),
        placement=_placement(optimizer),
        parameters=tuple(_name(t, i, names) for i, t in enumerate(optimizer.params)),
        slots=slots,
        scalars={name: _scalar(name, tensor) for name, tensor in _scalars(optimizer).items()},
    )


def read_state(
    optimizer: Optimizer, record: OptimizerRecord
) -> dict[tuple[str, str], StoredTensor]:
    """The state by (slot, parameter name); fused state is taken apart."""
    shapes = [tuple(t.shape) for t in optimizer.params]
    state: dict[tuple[str, str], StoredTensor] = {}
    for slot in record.slots:
        tensors = [read(tensor) for tensor in getattr(optimizer, slot)]
        if record.fused:
            tensors = list(_apart(tensors[0], shapes))
        state |= {(slot, n): t for n, t in zip(record.parameters, tensors, strict=True)}
    return state


def write_state(
    optimizer: Optimizer,
    record: OptimizerRecord,
    state: Mapping[tuple[str, str], StoredTensor],
) -> None:
    """Give `optimizer`, which matches `record`, the state and the scalars of the record."""
    for slot in record.slots:
        tensors = [state[slot, name] for name in record.parameters]
        if record.fused:
            tensors = [_together(tensors, record.state_dtype)]
        for tensor, stored in zip(getattr(optimizer, slot), tensors, strict=True):
            write(tensor, stored)
    for name, scalar in record.scalars.items():
        array = np.array([scalar.value], scalar.dtype)
        write(getattr(optimizer, name), StoredTensor(scalar.dtype, (1,), array.tobytes()))


def state_tensors(optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """What the optimizer keeps, with a name for messages: its scalars and its slots."""
    yield from _scalars(optimizer).items()
    for slot in FAMILIES[_family(optimizer)].slots:
        for number, tensor in enumerate(getattr(optimizer, slot)):
            yield f"{slot}[{number}]", tensor


def materialize(optimizer: Optimizer) -> None:
    """Compute the state a new optimizer starts with, which tinygrad leaves lazy."""
    for member in members(optimizer):
        for slot in FAMILIES[_family(member)].slots:
            for tensor in getattr(member, slot):
                if is_pending(tensor):
                    # Zeros; tinygrad cannot compute lazy zeros that are split over devices.
                    name, shape = dtype_name(tensor.dtype), tuple(tensor.shape)
                    size = math.prod(shape) * tensor.dtype.itemsize
                    write(tensor, StoredTensor(name, shape, bytes(size)))
        Tensor.realize(*_scalars(member).values())


def require_gradients(optimizer: Optimizer, parameters: Mapping[str, Tensor]) -> None:
    """ModeldError naming the parameters of `optimizer` that got no gradient.

    tinygrad itself stops with an AssertionError that names nothing, after it has already begun to
    assign to the parameters before.
    """
    names = {id(tensor): name for name, tensor in reversed(list(parameters.items()))}
    params = (p for member in members(optimizer) for p in member.params)
    missing = {names.get(id(p), "one without a name") for p in params if p.grad is None}
    if missing:
        raise ModeldError(
            f"no gradient for {', '.join(sorted(missing))}; call backward() on a loss that depends "
            "on them, or leave them out of the optimizer"
        )


def _family(optimizer: Optimizer) -> str:
    if type(optimizer) not in _CLASSES:
        raise ModeldError(
            f"the state of a {type(optimizer).__name__} is not known; "
            "use SGD, LARS, Muon, Adam, AdamW, LAMB or a group of them"
        )
    return _CLASSES[type(optimizer)]


def _name(tensor: Tensor, position: int, names: Mapping[int, str]) -> str:
    if id(tensor) not in names:
        raise ModeldError(
            f"parameter {position} of an optimizer, of shape {tuple(tensor.shape)}, has no name; "
            "pass all of the optimizer's parameters by name"
        )
    return names[id(tensor)]


def _placement(optimizer: Optimizer) -> Placement:
    device = optimizer.device
    return on_devices(device) if isinstance(device, str) else on_devices(*device)


def _scalars(optimizer: Optimizer) -> dict[str, Tensor]:
    if optimizer.lr.shape != (1,):
        raise ModeldError(
            "CONST_LR is set, so the learning rate is compiled into the kernels and cannot be "
            "restored; unset CONST_LR"
        )
    return {name: getattr(optimizer, name) for name in FAMILIES[_family(optimizer)].scalars}


def _scalar(name: str, tensor: Tensor) -> Scalar:
    value = float(np.frombuffer(read(tensor).data, dtype_name(tensor.dtype))[0])
    if not math.isfinite(value):
        raise ModeldError(f"{name} of an optimizer is {value}; load the last checkpoint")
    return Scalar(dtype_name(tensor.dtype), value)


def _apart(flat: StoredTensor, shapes: Sequence[tuple[int, ...]]) -> Iterator[StoredTensor]:
    start, width = 0, dtype_named(flat.dtype).itemsize
    for shape in shapes:
        end = start + math.prod(shape) * width
        yield StoredTensor(flat.dtype, shape, flat.data[start:end])
        start = end


def _together(tensors: Sequence[StoredTensor], dtype: str) -> StoredTensor:
    size = sum(math.prod(tensor.shape) for tensor in tensors)
    return StoredTensor(dtype, (size,), b"".join(tensor.data for tensor in tensors))
