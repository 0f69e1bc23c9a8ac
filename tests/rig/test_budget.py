"""Budgets: what is within, what is over, and files that are no budget."""

from pathlib import Path

import pytest

from modeld.errors import ModeldError
from modeld.rig.budget import Violation, read_budget, violations

REPORT = {
    "latency_ms": {"end_to_end": {"p99": 44.5, "p99.9": 49.0}, "turn": {"p50": 20.0}},
    "misses": {"total": 3, "longest_run": 1},
    "memory": {"resident_mib": 200.0},
    "source": "road",
    "ok": True,
}


def budget(folder: Path, text: str) -> dict[str, float]:
    path = folder / "budget.toml"
    path.write_text(text)
    return read_budget(path)


def test_limits_are_named_as_the_reports_numbers(tmp_path: Path) -> None:
    text = '[latency_ms.end_to_end]\np99 = 45\n"p99.9" = 48.5\n[misses]\ntotal = 0\n'
    limits = budget(tmp_path, text)
    assert limits == {
        "latency_ms.end_to_end.p99": 45.0,
        "latency_ms.end_to_end.p99.9": 48.5,
        "misses.total": 0.0,
    }
    assert [str(v) for v in violations(limits, REPORT)] == [
        "latency_ms.end_to_end.p99.9 is 49, budget 48.5",
        "misses.total is 3, budget 0",
    ]


def test_a_limit_itself_is_within() -> None:
    assert violations({"misses.total": 3.0, "latency_ms.turn.p50": 20.0}, REPORT) == []


@pytest.mark.parametrize("name", ["memory.growth_mib", "misses.totl", "source", "ok", "misses"])
def test_what_the_report_does_not_measure_fails(name: str) -> None:
    assert violations({name: 1e9}, REPORT) == [Violation(name, 1e9, None)]


def test_a_number_that_is_none_fails() -> None:
    assert violations({"x": 1.0}, {"x": float("nan")}) != []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "has no limits"),
        ("[misses", "is not TOML"),
        ("[misses]\ntotal = 'few'\n", "misses.total is 'few'"),
        ("[misses]\ntotal = true\n", "misses.total is True"),
        ("[misses]\ntotal = nan\n", "misses.total is nan"),
        ("[misses]\ntotal = [1]\n", r"misses.total is \[1\]"),
    ],
)
def test_what_is_no_budget_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ModeldError, match=named):
        budget(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match=r"absent\.toml cannot be read"):
        read_budget(tmp_path / "absent.toml")


def test_the_example_is_a_budget() -> None:
    limits = read_budget(Path(__file__).parents[2] / "examples" / "budget.toml")
    assert "misses.longest_run" in limits
