"""Snapshots made to fit another program, each change asked for by name.

All but `with_state_dtype` lose nothing: what they change can be changed back to the same bytes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

from tinygrad import Tensor

from compile.training.optimizers import OptimizerRecord
from compile.training.placement import Placement, read
from compile.training.record import ParameterRecord
from compile.training.snapshot import Snapshot, State
from compile.training.stored import StoredTensor, dtype_named
from modeld.errors import ModeldError


def with_fusion(
    snapshot: Snapshot, fused: bool, *, accept_other_trust_ratio: bool = False
) -> Snapshot:
    """For optimizers made with `fused=...`.

    LARS and LAMB scale a step by the norm of each parameter, or when fused by the norm of all
    together: their next steps become others, which must be accepted. Muon cannot be fused.
    """
    for optimizer in snapshot.record.optimizers:
        if fused and optimizer.kind == "Muon":
            raise ModeldError("Muon cannot be fused; keep it unfused")
        if optimizer.trust_ratio and optimizer.fused != fused and not accept_other_trust_ratio:
            raise ModeldError(
                f"{optimizer.kind} takes the norm of each parameter unfused, of all together "
                "fused, so its next steps would differ; pass accept_other_trust_ratio=True"
            )
    return _with_optimizers(
        snapshot, [replace(optimizer, fused=fused) for optimizer in snapshot.record.optimizers]
    )


def renamed(snapshot: Snapshot, names: Mapping[str, str]) -> Snapshot:
    """Parameters under other names: `names` maps old to new; the others keep theirs."""
    known = {parameter.name for parameter in snapshot.record.parameters}
    if unknown := sorted(names.keys() - known):
        raise ModeldError(f"the checkpoint has no parameter {unknown[0]}; name one that it has")
    new = [names.get(name, name) for name in known]
    if len(set(new)) != len(new):
        twice = sorted({name for name in new if new.count(name) > 1})
        raise ModeldError(f"two parameters would be named {twice[0]}; give each its own name")

    def name_of(name: str) -> str:
        return names.get(name, name)

    record = replace(
        snapshot.record,
        parameters=tuple(
            replace(p, name=name_of(p.name), same_as=p.same_as and name_of(p.same_as))
            for p in snapshot.record.parameters
        ),
        optimizers=tuple(
            replace(o, parameters=tuple(map(name_of, o.parameters)))
            for o in snapshot.record.optimizers
        ),
    )
    return Snapshot(
        record,
        {name_of(name): tensor for name, tensor in snapshot.parameters.items()},
        {(n, slot, name_of(name)): t for (n, slot, name), t in snapshot.state.items()},
    )


def reordered(snapshot: Snapshot, order: Sequence[str], optimizer: int = 0) -> Snapshot:
    """One optimizer's parameters in another order; state goes with its parameter."""
    optimizers = list(snapshot.record.optimizers)
    before = optimizers[optimizer].parameters
    if sorted(order) != sorted(before):
        raise ModeldError(
            f"the order names {', '.join(order)}, the checkpoint has {', '.join(before)}; "
            "name each parameter once"
        )
    optimizers[optimizer] = replace(optimizers[optimizer], parameters=tuple(order))
    return _with_optimizers(snapshot, optimizers)


def moved(snapshot: Snapshot, placements: Mapping[str, Placement]) -> Snapshot:
    """Parameters on other devices, whole or split; those not named stay.

    The state goes where its optimizer's first parameter goes. Values stay the same; sums over
    devices may round otherwise in later steps.
    """
    known = {parameter.name for parameter in snapshot.record.parameters}
    if unknown := sorted(placements.keys() - known):
        raise ModeldError(f"the checkpoint has no parameter {unknown[0]}; name one that it has")
    parameters = tuple(_moved(p, placements) for p in snapshot.record.parameters)
    by_name = {p.name: p.placement for p in parameters}
    optimizers = tuple(
        # The state lies whole or split as each parameter does; of the optimizer itself only its
        # devices matter.
        replace(o, placement=Placement(by_name[o.parameters[0]].devices))
        for o in snapshot.record.optimizers
    )
    record = replace(snapshot.record, parameters=parameters, optimizers=optimizers)
    return replace(snapshot, record=record)


def with_state_dtype(snapshot: Snapshot, dtype: str) -> Snapshot:
    """For another OPTIM_DTYPE. Moments are rounded when it is narrower: this loses precision."""
    state: State = {key: _cast(tensor, dtype) for key, tensor in snapshot.state.items()}
    optimizers = [replace(o, state_dtype=dtype) for o in snapshot.record.optimizers]
    return replace(_with_optimizers(snapshot, optimizers), state=state)


def for_this_tinygrad(snapshot: Snapshot) -> Snapshot:
    """For the installed tinygrad, whose kernels may round otherwise than those it was made with."""
    record = replace(snapshot.record, tinygrad=version("tinygrad"))
    return replace(snapshot, record=record)


def _with_optimizers(snapshot: Snapshot, optimizers: Sequence[OptimizerRecord]) -> Snapshot:
    return replace(snapshot, record=replace(snapshot.record, optimizers=tuple(optimizers)))


def _moved(parameter: ParameterRecord, placements: Mapping[str, Placement]) -> ParameterRecord:
    placement = placements.get(parameter.name, parameter.placement)
    parts, axis = len(placement.devices), placement.axis
    if axis is not None and (axis >= len(parameter.shape) or parameter.shape[axis] % parts):
        raise ModeldError(
            f"{parameter.name} of shape {parameter.shape} cannot be {placement}; "
            f"choose an axis whose size {parts} divides"
        )
    return replace(parameter, placement=placement)


def _cast(tensor: StoredTensor, dtype: str) -> StoredTensor:
    if math.prod(tensor.shape) == 0:
        return replace(tensor, dtype=dtype)
    source = Tensor(tensor.data, dtype=dtype_named(tensor.dtype))
    return read(source.cast(dtype_named(dtype)).contiguous().reshape(tensor.shape).realize())
