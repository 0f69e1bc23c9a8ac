"""The conformance page, and the comparison with the failures that are known."""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from compile.conformance.run import Result, Status

KNOWN_FAILURES = Path(__file__).parent / "known_failures.toml"

_HEAD = """# Conformance

Made by `make conformance`: every case of the onnx {onnx} package's backend suite (node, simple and
PyTorch models) with static shapes and element types among float16/32/64, (u)int8 to 64 and bool,
{total} cases, each through the whole path: build, artifact on disk, executor.
Compared with ONNX Runtime {ort} on the CPU. A value may differ by {atol} + {rtol} of its size.

| | cases |
|---|---|
| passed | {passed} |
| refused, with the reason | {refused} |
| crashed | {crashed} |
| wrong | {wrong} |
| ONNX Runtime passes | {peer} |
| passed of those | {both} |
| with inputs that decide shapes, frozen by `--const` | {frozen} |

A case with more than one operator counts in the row of each.

| operator | cases | passed | refused | crashed | wrong | ONNX Runtime | frozen |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Deviations:
    """How a run differs from the known failures."""

    new: tuple[Result, ...]
    gone: tuple[str, ...]


def known_failures(path: Path = KNOWN_FAILURES) -> dict[str, str]:
    """Reasons by the name of each case that is known not to pass."""
    table = tomllib.loads(path.read_text())
    return {name: reason for reason, names in table.items() for name in names}


def deviations(results: Sequence[Result], known: Mapping[str, str]) -> Deviations:
    """Failures that are not known, and known ones that pass or were not run."""
    failed = {result.name for result in results if result.status is not Status.PASSED}
    new = tuple(r for r in results if r.name in failed and r.name not in known)
    ran = {result.name for result in results}
    return Deviations(new, tuple(sorted((known.keys() & ran) - failed)))


def page(results: Sequence[Result], known: Mapping[str, str], rtol: float, atol: float) -> str:
    """The page as Markdown."""
    statuses = Counter(result.status for result in results)
    head = _HEAD.format(
        onnx=version("onnx"),
        ort=version("onnxruntime"),
        total=len(results),
        rtol=f"{rtol:g}",
        atol=f"{atol:g}",
        passed=statuses[Status.PASSED],
        refused=statuses[Status.REFUSED],
        crashed=statuses[Status.CRASHED],
        wrong=statuses[Status.WRONG],
        peer=sum(result.peer for result in results),
        both=sum(result.peer and result.status is Status.PASSED for result in results),
        frozen=sum(bool(result.frozen) for result in results),
    )
    return head + "".join(_rows(results)) + _failures(results, known)


def _rows(results: Sequence[Result]) -> list[str]:
    by_operator: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        for operator in result.operators:
            by_operator[operator].append(result)
    rows = []
    for operator, mine in sorted(by_operator.items()):
        statuses = Counter(result.status for result in mine)
        cells = (
            operator,
            len(mine),
            *(statuses[status] or "" for status in Status),
            sum(result.peer for result in mine) or "",
            sum(bool(result.frozen) for result in mine) or "",
        )
        rows.append(f"| {' | '.join(map(str, cells))} |\n")
    return rows


def _failures(results: Sequence[Result], known: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for result in results:
        if result.status is not Status.PASSED:
            peer = "" if result.peer else " (nor ONNX Runtime)"
            reason = known.get(result.name, result.detail)
            by_reason[reason].append(f"`{result.name}`{peer}")
    lines = ["\n## Cases that do not pass\n"]
    for reason, names in sorted(by_reason.items()):
        lines.append(f"\n**{reason}**\n\n{', '.join(sorted(names))}\n")
    return "".join(lines)
