"""A measurement as numbers, as a table for people, and as one line for machines."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from modeld.rig.budget import Violation
from modeld.rig.latency import PERCENTILES
from modeld.rig.measure import Measurement, memory_growth_mib
from modeld.rig.recorder import END_TO_END, STACKED, WARMUP_FRAMES

_MIB = 1 << 20
_COLUMNS = (*PERCENTILES, "max", "mean")
# What the rows of the table mean, in the order of a frame's life.
_MEANING = {
    "wait": "for the daemon",
    "sync": "pair of frames",
    "upload": "to the device",
    "warp": "to the model's view",
    "model": "the network",
    "read": "to the host",
    "host": "rest of the call",
    "parse": "check, parse, act",
    "deliver": "modelV2 to here",
    "publish": "all three messages",
    "turn": "pair to messages",
    "overhead": "turn - warp - model",
    END_TO_END: "end of frame to here",
}


def report(measurement: Measurement, source: str) -> dict[str, Any]:
    """Every number of a measurement, by name; the shape that budgets follow."""
    recorder, health = measurement.recorder, measurement.health
    growth = memory_growth_mib(measurement.memory)
    last = measurement.memory[-1][1] if measurement.memory else 0
    misses = recorder.misses
    # The daemon's own count, since a subscriber misses what was sent while it still connected.
    counters = health.counters if health is not None else None
    return {
        "source": source,
        "artifact": health.artifactId if health is not None else "",
        "seconds": round(measurement.seconds, 3),
        "frames": {
            "answered": counters.frames if counters is not None else recorder.answers,
            "dropped": counters.drops if counters is not None else misses.skipped,
            "heard": recorder.answers,
            "invalid": recorder.invalid,
        },
        # How they reached the device.
        "pictures": {
            "in_place": counters.framesInPlace if counters is not None else 0,
            "copied": counters.framesCopied if counters is not None else 0,
        },
        "misses": {
            "deadline_ms": misses.deadline_ns / 1e6,
            "of": misses.frames,
            "total": misses.total,
            "skipped": misses.skipped,
            "longest_run": misses.longest_run,
        },
        "latency_ms": {
            name: recorder.histograms[name].summary_ms()
            for name in _MEANING
            if name in recorder.histograms
        },
        "startup": {"first_message_s": round(measurement.startup_s, 3)},
        "memory": {
            "resident_mib": round(last / _MIB, 2),
            **({} if growth is None else {"growth_mib": round(growth, 3)}),
        },
        "cpu": {
            "percent": round(100 * measurement.cpu_seconds / max(measurement.seconds, 1e-9), 1)
        },
        "environment": measurement.environment,
    }


def result_line(numbers: Mapping[str, Any], broken: Sequence[Violation]) -> str:
    """`RESULT {…}`: one line of JSON with the verdict, the broken limits and every number."""
    verdict = "fail" if broken else "pass"
    content = {"verdict": verdict, "violations": [str(v) for v in broken], **numbers}
    return "RESULT " + json.dumps(content, separators=(",", ":"), sort_keys=True)


def latency_table(numbers: Mapping[str, Any]) -> Table:
    """Percentiles of every stage in milliseconds."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title="latency in milliseconds",
        title_justify="left",
        padding=(0, 1, 0, 0),
    )
    # The widths keep numbers whole on narrow terminals; the explanation gives way.
    table.add_column("stage", style="bold", no_wrap=True, min_width=10)
    for column in _COLUMNS:
        table.add_column(column, justify="right", no_wrap=True, min_width=6)
    table.add_column("what", style="dim", no_wrap=True)
    latencies = numbers["latency_ms"]
    for name, meaning in _MEANING.items():
        summary = latencies.get(name)
        if not summary:
            continue
        if name == "publish":
            table.add_section()
        cells = [f"{summary[column]:.2f}" for column in _COLUMNS]
        style = "" if name in STACKED else "bold cyan"
        table.add_row(name.replace("_", " "), *cells, meaning, style=style)
    return table


def summary_table(numbers: Mapping[str, Any]) -> Table:
    """Frames, misses, memory, start-up."""
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    frames, misses, memory = numbers["frames"], numbers["misses"], numbers["memory"]
    dropped = f"[red]{frames['dropped']}[/]" if frames["dropped"] else "0"
    invalid = f", [red]{frames['invalid']} not valid[/]" if frames["invalid"] else ""
    table.add_row("frames", f"{frames['answered']} answered{invalid}, {dropped} dropped")
    pictures = numbers["pictures"]
    shown = f"{pictures['in_place']} used in place, {pictures['copied']} copied for the device"
    table.add_row("pictures", shown)
    table.add_row(
        "deadline",
        f"{misses['deadline_ms']:g} ms: {misses['total']} of {misses['of']} frames missed it, "
        f"at most {misses['longest_run']} in a row (of {frames['heard']} answers heard here the "
        f"first {WARMUP_FRAMES} are left out)",
    )
    growth = f", grew {memory['growth_mib']:+.2f} MiB" if "growth_mib" in memory else ""
    table.add_row("memory", f"{memory['resident_mib']:.0f} MiB resident{growth}")
    table.add_row("processor", f"{numbers['cpu']['percent']:.0f} % of one core")
    table.add_row("start", f"{numbers['startup']['first_message_s']:.2f} s to the first message")
    return table
