"""The command `python -m compile.conformance`: all cases, two processes, one page."""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from compile.conformance.cases import ATOL, RTOL, load_cases
from compile.conformance.report import deviations, known_failures, page
from compile.conformance.run import Result, Status, run_case
from modeld.errors import ModeldError
from modeld.files import write_result

PAGE = Path("docs/conformance.md")

# Few enough that both processes end together, enough that handing over costs nothing.
_BATCH = 12


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases. Exit status 1 when one fails that is not known to, or the other way."""
    parser = argparse.ArgumentParser(prog="python -m compile.conformance", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    parser.add_argument(
        "--only",
        type=re.compile,
        metavar="REGEX",
        help="cases whose name or operator matches; the page is not written",
    )
    parser.add_argument("--out", type=Path, default=PAGE, metavar="FILE.md")
    args = parser.parse_args(argv)
    try:
        return _run(args.jobs, args.only, args.out)
    except ModeldError as error:
        print(f"conformance: error: {error}", file=sys.stderr)
        return error.exit_code


def _run(jobs: int, only: "re.Pattern[str] | None", out: Path) -> int:
    # One compile process for each of ours: tinygrad would start a pool of its own in every one.
    os.environ["PARALLEL"] = "0"
    results = sorted(_results(jobs, only), key=lambda result: result.name)
    if not results:
        raise ModeldError(f"no case or operator matches {only.pattern if only else ''!r}")
    known = known_failures()
    if only is None:
        write_result(out, page(results, known, RTOL, ATOL).encode())
    found = deviations(results, known)
    for result in found.new:
        print(f"{result.status}: {result.name}: {result.detail}")
    for name in found.gone:
        print(f"passes now, drop it from the known failures: {name}")
    both = sum(r.peer and r.status is Status.PASSED for r in results)
    print(
        f"{len(results)} cases: {sum(r.status is Status.PASSED for r in results)} passed; "
        f"{both} of the {sum(r.peer for r in results)} that ONNX Runtime passes; "
        f"{sum(r.status is Status.WRONG for r in results)} wrong"
    )
    return 1 if found.new or found.gone else 0


def _results(jobs: int, only: "re.Pattern[str] | None") -> Iterator[Result]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        names = pool.submit(_names, only).result()
        batches = [names[n : n + _BATCH] for n in range(0, len(names), _BATCH)]
        done = 0
        for future in as_completed([pool.submit(_run_batch, batch) for batch in batches]):
            done += len(future.result())
            print(f"\r{done} of {len(names)} cases", end="", file=sys.stderr, flush=True)
            yield from future.result()
    print(file=sys.stderr)


def _names(only: "re.Pattern[str] | None") -> list[str]:
    return [
        name
        for name, case in load_cases().items()
        if only is None
        or only.search(name)
        or any(only.fullmatch(operator) for operator in case.operators)
    ]


def _run_batch(names: Sequence[str]) -> list[Result]:
    cases = load_cases()
    return [run_case(cases[name]) for name in names]
