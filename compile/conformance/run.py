"""One case: build it, open the artifact, run it, compare."""

import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from compile.build import build
from compile.conformance.cases import Case
from compile.graph import NeedsConstantError
from compile.request import BuildRequest
from compile.verify import OnnxRuntime
from modeld.artifact import open_artifact
from modeld.errors import ModeldError
from modeld.executor import Executor


class Status(StrEnum):
    """How a case ended. Only `WRONG` is a result that nobody was warned of."""

    PASSED = "passed"
    REFUSED = "refused"
    CRASHED = "crashed"
    WRONG = "wrong"


@dataclass(frozen=True)
class Result:
    """Outcome of a case.

    `detail` says why it did not pass, `frozen` which inputs were frozen, `peer` whether ONNX
    Runtime gives the expected outputs.
    """

    name: str
    operators: tuple[str, ...]
    status: Status
    detail: str
    frozen: tuple[str, ...]
    peer: bool


def peer_passes(case: Case) -> bool:
    """Whether ONNX Runtime on the CPU gives the outputs that the case expects."""
    try:
        return not case.difference(OnnxRuntime(case.model, Path())(dict(case.inputs)))
    except ModeldError:
        return False


def run_case(case: Case) -> Result:
    """Run a case through the whole path.

    Inputs that decide shapes are frozen when the build names them, as a user would; all others
    are given at run time.
    """
    frozen: frozenset[str] = frozenset()
    status, detail = Status.PASSED, ""
    with tempfile.TemporaryDirectory() as directory:
        try:
            artifact, frozen = _build(case, Path(directory))
            given = {name: a for name, a in case.inputs.items() if name not in frozen}
            detail = case.difference(Executor(open_artifact(artifact)).run("run_model", given))
            status = Status.WRONG if detail else Status.PASSED
        except ModeldError as error:
            status, detail = Status.REFUSED, str(error)
        except Exception as error:  # noqa: BLE001 (whatever one case breaks, the others go on)
            status, detail = Status.CRASHED, f"{type(error).__name__}: {error}"
    names = tuple(sorted(frozen))
    return Result(case.name, case.operators, status, detail, names, peer_passes(case))


def _build(case: Case, directory: Path) -> tuple[Path, frozenset[str]]:
    model, artifact = directory / "model.onnx", directory / "artifact"
    model.write_bytes(case.model.SerializeToString())
    frozen: frozenset[str] = frozenset()
    while True:
        request = BuildRequest(
            model=model,
            out=artifact,
            constants={name: case.inputs[name] for name in frozen},
            reference_inputs={n: a for n, a in case.inputs.items() if n not in frozen},
            # The outputs that the case expects are what its result is held against.
            unverified=True,
        )
        try:
            build(request)
        except NeedsConstantError as error:
            if not set(error.inputs) - frozen:
                raise
            frozen |= set(error.inputs)
        else:
            return artifact, frozen
