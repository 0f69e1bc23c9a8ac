"""All that a training run needs to go on, taken from live tensors and given back to them.

Weights alone do not resume a run: moments, bias powers, the learning rate, the random counter and
the place in the data do too. A snapshot has all of them, and a description exact enough to refuse
every program in which the next step would be another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from tinygrad import Device, Tensor
from tinygrad.nn.optim import Optimizer, OptimizerGroup

from compile.training.matching import require_match
from compile.training.optimizers import (
    describe,
    materialize,
    members,
    read_state,
    state_tensors,
    write_state,
)
from compile.training.placement import is_pending, placement_of, read, write
from compile.training.randomness import random_state, set_random_state
from compile.training.record import FORMAT_VERSION, ParameterRecord, RunRecord
from compile.training.schedule import Schedule
from compile.training.stepping import mark_whole, require_whole
from compile.training.stored import StoredTensor, dtype_name
from modeld.errors import ModeldError

Parameters = Mapping[str, Tensor]
# State by the optimizer's place in its group (0 without one), slot, and parameter.
State = dict[tuple[int, str, str], StoredTensor]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment: its description, parameter values by name, optimizer state."""

    record: RunRecord
    parameters: dict[str, StoredTensor]
    state: State


def take(
    parameters: Parameters,
    optimizer: Optimizer,
    *,
    step: int,
    schedule: Schedule | None = None,
    position: Mapping[str, Any] | None = None,
) -> Snapshot:
    """A snapshot after `step` finished steps.

    `parameters` are all tensors of the model by name, also those that are not trained (as
    `tinygrad.nn.state.get_state_dict` gives them). `position` says where in the data the run is,
    as JSON. Raises ModeldError when a step failed half-way (see `compile.training.stepping`) or a
    value is yet to be computed.
    """
    require_whole(optimizer)
    _refuse_pending(parameters, optimizer)
    record = _record(parameters, optimizer, step, schedule, dict(position or {}))
    values = {p.name: read(parameters[p.name]) for p in record.parameters if p.same_as is None}
    state = {
        (number, slot, name): stored
        for number, member in enumerate(members(optimizer))
        for (slot, name), stored in read_state(member, record.optimizers[number]).items()
    }
    return Snapshot(record, values, state)


def restore(
    snapshot: Snapshot,
    parameters: Parameters,
    optimizer: Optimizer,
    *,
    schedule: Schedule | None = None,
) -> None:
    """Give the tensors, the optimizer and tinygrad's random numbers the snapshot's state.

    Nothing is changed unless all of it fits. Raises ModeldError naming what the snapshot has and
    what is here when they differ; `compile.training.converters` makes snapshots fit. Step and
    data position are for the caller to go on from.
    """
    materialize(optimizer)
    here = _record(parameters, optimizer, snapshot.record.step, schedule, {})
    require_match(snapshot.record, here)
    for name, stored in snapshot.parameters.items():
        write(parameters[name], stored)
    for number, member in enumerate(members(optimizer)):
        state = {(s, name): t for (n, s, name), t in snapshot.state.items() if n == number}
        write_state(member, snapshot.record.optimizers[number], state)
    set_random_state(snapshot.record.random)
    mark_whole(optimizer)


def _record(
    parameters: Parameters,
    optimizer: Optimizer,
    step: int,
    schedule: Schedule | None,
    position: dict[str, Any],
) -> RunRecord:
    first: dict[int, str] = {}
    records = []
    for name, tensor in parameters.items():
        same_as = first.setdefault(id(tensor), name)
        records.append(
            ParameterRecord(
                name=name,
                dtype=dtype_name(tensor.dtype),
                shape=tuple(tensor.shape),
                placement=placement_of(tensor),
                same_as=None if same_as == name else same_as,
            )
        )
    for member in members(optimizer):
        for number, buffer in enumerate(member.buffers):
            if id(buffer) not in first:
                raise ModeldError(
                    f"buffer {number} of an optimizer, of shape {tuple(buffer.shape)}, has no "
                    "name; pass all of the optimizer's tensors by name"
                )
    optimizers = tuple(describe(member, first) for member in members(optimizer))
    return RunRecord(
        format_version=FORMAT_VERSION,
        tinygrad=version("tinygrad"),
        devices={d: hardware(d) for p in records for d in p.placement.devices},
        step=step,
        parameters=tuple(records),
        grouped=isinstance(optimizer, OptimizerGroup),
        optimizers=optimizers,
        schedule=schedule,
        random=random_state(),
        position=position,
    )


def _refuse_pending(parameters: Parameters, optimizer: Optimizer) -> None:
    tensors = list(parameters.items())
    for member in members(optimizer):
        tensors += [(f"{name} of an optimizer", tensor) for name, tensor in state_tensors(member)]
    pending = [name for name, tensor in tensors if is_pending(tensor)]
    if pending:
        raise ModeldError(
            f"{pending[0]} is yet to be computed ({len(pending)} of {len(tensors)} tensors are): "
            "in a new run call `start` first; after a failed step load the last checkpoint"
        )


def start(parameters: Parameters, optimizer: Optimizer) -> None:
    """Compute the values that a new run begins with; tinygrad leaves them lazy."""
    for tensor in parameters.values():
        tensor.realize()
    materialize(optimizer)


def hardware(name: str) -> str:
    """What computes on a device, and its driver: another one may round otherwise."""
    device = Device[name]
    parts = (getattr(device, "device_name", ""), getattr(device, "driver_version", ""))
    return " ".join(part.strip() for part in parts) if all(parts) else name
