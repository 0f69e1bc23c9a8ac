"""Whether a checkpoint fits a program, and if not what it has and what the program has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compile.training.optimizers import OptimizerRecord
from compile.training.record import ParameterRecord, RunRecord
from modeld.errors import ModeldError

# The rest is counted: a wrong network differs in everything.
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Difference:
    """A thing, and its value on both sides."""

    what: str
    saved: Any
    here: Any

    def __str__(self) -> str:
        return f"{self.what} is {self.saved} in the checkpoint, {self.here} here"


def require_match(saved: RunRecord, here: RunRecord) -> None:
    """ModeldError naming the differences, if there are any."""
    found = list(differences(saved, here))
    if found:
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        listed = "; ".join(str(difference) for difference in found[:_SHOWN])
        raise ModeldError(
            f"{listed}{more}; build the run as it was, or convert the checkpoint "
            "(compile.training.converters)"
        )


def require_same_fields(saved: Mapping[str, object], here: Mapping[str, object]) -> None:
    """ModeldError naming the fields of a run's configuration that the checkpoint has otherwise."""
    found = [
        str(Difference(name, saved.get(name), here.get(name)))
        for name in sorted(here.keys() | saved.keys())
        if saved.get(name) != here.get(name)
    ]
    if found:
        raise ModeldError(f"{'; '.join(found)}; use the old value or another --out")


def differences(saved: RunRecord, here: RunRecord) -> Iterator[Difference]:
    """Everything that would make the next step another one.

    Not compared are step, position, random numbers and learning rate, which are taken from the
    checkpoint, and the hardware, which may round otherwise but has no state.
    """
    if saved.tinygrad != here.tinygrad:
        yield Difference("tinygrad's version", saved.tinygrad, here.tinygrad)
    yield from _parameters(saved.parameters, here.parameters)
    if saved.grouped != here.grouped or len(saved.optimizers) != len(here.optimizers):
        yield Difference("the optimizer", _kinds(saved), _kinds(here))
    else:
        for number, pair in enumerate(zip(saved.optimizers, here.optimizers, strict=True)):
            yield from _optimizer(
                f"optimizer {number}" if saved.grouped else "the optimizer", *pair
            )
    if saved.schedule != here.schedule:
        yield Difference("the schedule", saved.schedule, here.schedule)


def _parameters(
    saved: tuple[ParameterRecord, ...], here: tuple[ParameterRecord, ...]
) -> Iterator[Difference]:
    ours, theirs = {p.name: p for p in here}, {p.name: p for p in saved}
    if missing := sorted(theirs.keys() - ours.keys()):
        yield Difference(f"parameter {', '.join(missing)}", "present", "missing")
    if extra := sorted(ours.keys() - theirs.keys()):
        yield Difference(f"parameter {', '.join(extra)}", "missing", "present")
    for name in sorted(ours.keys() & theirs.keys()):
        a, b = theirs[name], ours[name]
        for what, old, new in (
            ("shape", a.shape, b.shape),
            ("element type", a.dtype, b.dtype),
            ("placement", a.placement, b.placement),
            ("tie", a.same_as or "to nothing", b.same_as or "to nothing"),
        ):
            if old != new:
                yield Difference(f"the {what} of {name}", old, new)


def _optimizer(label: str, saved: OptimizerRecord, here: OptimizerRecord) -> Iterator[Difference]:
    if saved.family != here.family:
        yield Difference(label, saved.kind, here.kind)
        return
    for name, value in saved.hyperparameters.items():
        if value != here.hyperparameters[name]:
            yield Difference(f"{name} of {label}", value, here.hyperparameters[name])
    if saved.fused != here.fused:
        yield Difference(label, _fusion(saved), _fusion(here))
    if saved.state_dtype != here.state_dtype:
        yield Difference(f"OPTIM_DTYPE of {label}", saved.state_dtype, here.state_dtype)
    if saved.placement != here.placement:
        yield Difference(f"the placement of {label}", saved.placement, here.placement)
    if saved.parameters != here.parameters:
        what = "order of" if set(saved.parameters) == set(here.parameters) else "list of"
        lists = [", ".join(record.parameters) for record in (saved, here)]
        yield Difference(f"the {what} parameters of {label}", *lists)
    for name, scalar in saved.scalars.items():
        if scalar.dtype != here.scalars[name].dtype:
            yield Difference(f"the element type of {name}", scalar.dtype, here.scalars[name].dtype)


def _kinds(record: RunRecord) -> str:
    names = " + ".join(optimizer.kind for optimizer in record.optimizers)
    return f"a group of {names}" if record.grouped else names


def _fusion(record: OptimizerRecord) -> str:
    return "fused" if record.fused else "not fused"
