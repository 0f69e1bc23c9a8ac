"""Reports for people and machines, exports for other programs."""

import csv
import io
import itertools
import json
from typing import Any

import pytest
from rich.console import Console

from modeld.health import TurnTimes
from modeld.rig.budget import Violation
from modeld.rig.export import to_csv, to_trace
from modeld.rig.latency import Answer
from modeld.rig.measure import Measurement, memory_growth_mib
from modeld.rig.recorder import END_TO_END, STACKED, WARMUP_FRAMES, Recorder
from modeld.rig.report import latency_table, report, result_line, summary_table

MS = 1_000_000
PERIOD = 50 * MS
MIB = 1 << 20


def recorded(frames: int = 40, skipped: tuple[int, ...] = (30,)) -> Recorder:
    recorder = Recorder(PERIOD, PERIOD)
    for frame_id in range(frames):
        if frame_id in skipped:
            continue
        eof = frame_id * PERIOD
        stamps = [eof + t * MS for t in (1, 2, 17, 18, 20)]
        answer = Answer(frame_id, eof, eof + 21 * MS)
        recorder.answered(answer, valid=True)
        recorder.turn(TurnTimes(frame_id, eof, *stamps, 1 * MS, 2 * MS, 10 * MS, 1 * MS))
    return recorder


def measurement(recorder: Recorder, memory: list[tuple[float, int]] | None = None) -> Measurement:
    return Measurement(
        recorder,
        health=None,
        startup_s=1.25,
        seconds=2.0,
        cpu_seconds=0.5,
        memory=memory or [(0.0, 200 * MIB)],
        environment={"before": {"load": 0.1}, "after": {"load": 0.2}},
    )


def test_every_number_has_its_name() -> None:
    numbers = report(measurement(recorded()), "road")
    assert numbers["frames"] == {"answered": 39, "dropped": 1, "heard": 39, "invalid": 0}
    assert numbers["pictures"] == {"in_place": 0, "copied": 0}  # no daemon told
    assert numbers["misses"] == {
        "deadline_ms": 50.0, "of": 40 - WARMUP_FRAMES, "total": 1, "skipped": 1, "longest_run": 1,
    }  # fmt: skip
    assert numbers["latency_ms"]["turn"]["p50"] == 18.0
    assert numbers["latency_ms"]["overhead"]["max"] == 6.0
    assert numbers["latency_ms"][END_TO_END]["max"] == 71.0  # the skipped frame's
    assert numbers["startup"]["first_message_s"] == 1.25
    assert numbers["cpu"]["percent"] == 25.0
    assert numbers["memory"] == {"resident_mib": 200.0}


def test_the_result_is_one_line_of_json() -> None:
    numbers = report(measurement(recorded()), "road")
    line = result_line(numbers, [Violation("misses.total", 0.0, 1.0)])
    assert "\n" not in line
    word, _, content = line.partition(" ")
    parsed = json.loads(content)
    assert word == "RESULT"
    assert parsed["verdict"] == "fail"
    assert parsed["violations"] == ["misses.total is 1, budget 0"]
    assert parsed["latency_ms"] == numbers["latency_ms"]
    assert json.loads(result_line(numbers, [])[7:])["verdict"] == "pass"


def shown(*parts: Any, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(*parts)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_tables_keep_their_numbers_whole_on_eighty_columns() -> None:
    numbers = report(measurement(recorded()), "road")
    text = shown(latency_table(numbers))
    for name in (*STACKED, "turn", "overhead", "end to end"):
        (row,) = (line for line in text.splitlines() if line.strip().startswith(name + " "))
        assert "…" not in row[:66]
    summary = shown(summary_table(numbers), width=200)
    assert "39 answered, 1 dropped" in summary
    assert "1 of 30 frames missed it" in summary
    assert "of 39 answers heard here the first 10 are left out" in summary


@pytest.mark.parametrize(("per_second", "wanted"), [(0, 0.0), (1000, 300_000 / MIB)])
def test_memory_growth_is_from_the_first_minute_to_the_end(per_second: int, wanted: float) -> None:
    # Start-up growth before the first minute is none of it.
    memory = [(float(s), 200 * MIB - (s < 60) * MIB + per_second * s) for s in range(362)]
    assert memory_growth_mib(memory) == pytest.approx(wanted, rel=0.02, abs=1e-9)
    # One reading that is off does not matter.
    memory[-2] = (360.0, 900 * MIB)
    assert memory_growth_mib(memory) == pytest.approx(wanted, rel=0.02, abs=1e-9)


def test_a_short_run_tells_no_growth() -> None:
    assert memory_growth_mib([(float(s), MIB) for s in range(11)]) is None


def test_csv_has_a_line_for_every_scheduled_frame() -> None:
    recorder = recorded()
    rows = list(csv.DictReader(io.StringIO(to_csv(list(recorder.rows), list(recorder.samples)))))
    assert [int(row["frame_id"]) for row in rows] == list(range(WARMUP_FRAMES, 40))
    (skipped,) = (row for row in rows if row["skipped"] == "1")
    assert (skipped["frame_id"], skipped["model"], skipped[END_TO_END]) == ("30", "", "71.0000")
    row = rows[0]
    assert float(row[END_TO_END]) == 21.0
    assert sum(float(row[name]) for name in STACKED) == pytest.approx(21.0)


def test_a_trace_has_each_stage_after_the_one_before() -> None:
    recorder = recorded()
    bars = json.loads(to_trace(list(recorder.rows)))["traceEvents"]
    frame = [bar for bar in bars if bar["args"]["frame_id"] == 20]
    assert [bar["name"] for bar in frame] == list(STACKED)
    assert frame[0]["ts"] == 20 * PERIOD / 1e3  # microseconds
    for before, after in itertools.pairwise(frame):
        assert after["ts"] == pytest.approx(before["ts"] + before["dur"])
