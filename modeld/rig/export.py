"""A run frame by frame, for other programs: CSV, and a trace for Perfetto or chrome://tracing."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from modeld.rig.latency import Sample
from modeld.rig.recorder import END_TO_END, STACKED, Row, stage_times


def to_csv(rows: Sequence[Row], samples: Sequence[Sample]) -> str:
    """One line per scheduled frame: id, end of frame (ns), skipped, latency and stages (ms).

    Stages are empty for skipped frames, and for answers whose times the daemon did not tell.
    """
    stages = {row.answer.frame_id: (row, stage_times(row.times, row.answer)) for row in rows}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["frame_id", "timestamp_eof", "skipped", END_TO_END, *STACKED])
    for sample in samples:
        row, times = stages.get(sample.frame_id, (None, {}))
        eof = row.answer.timestamp_eof if row is not None else ""
        cells = [f"{times[name] / 1e6:.4f}" if times else "" for name in STACKED]
        latency = f"{sample.latency / 1e6:.4f}"
        writer.writerow([sample.frame_id, eof, int(sample.skipped), latency, *cells])
    return text.getvalue()


def to_trace(rows: Sequence[Row]) -> str:
    """The Trace Event Format: each stage of each frame as a bar, times in microseconds."""
    return json.dumps({"traceEvents": list(_bars(rows)), "displayTimeUnit": "ms"})


def _bars(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    for row in rows:
        start = row.answer.timestamp_eof
        for name, duration in stage_times(row.times, row.answer).items():
            if name not in STACKED:
                continue
            yield {
                "name": name,
                "ph": "X",
                "ts": start / 1e3,
                "dur": duration / 1e3,
                "pid": 0,
                "tid": 0,
                "args": {"frame_id": row.answer.frame_id},
            }
            start += duration
