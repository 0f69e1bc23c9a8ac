"""The results as Markdown, JSON and a bar chart."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.measure import Timing

PEERS = ("onnxruntime", "openvino", "tinygrad")
_COLOURS = {"onnxruntime": "#4477aa", "openvino": "#228833", "tinygrad": "#ee6677"}


@dataclass
class Result:
    """Everything measured on one model."""

    model: str
    macs: int
    launches: int
    timings: dict[str, Timing]
    difference: float
    device_ms: float
    peak_gflops: float
    share_by_time: float
    share_dense: float
    arena_bytes: int
    build_s: float | None
    cold_start_s: float | None
    warm_start_s: float
    peak_kib: dict[str, float]
    kernels: list[list[object]] = field(default_factory=list)

    def ratio(self, peer: str) -> float | None:
        """How many times the peer's median is ours."""
        theirs = self.timings.get(peer)
        return theirs.median / self.timings["ours"].median if theirs else None


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(math.log(v) for v in values) / len(values))


def markdown(results: Sequence[Result], machine: str) -> str:
    """Tables of times, ratios and sizes."""
    lines = [
        f"Machine: {machine}. Shares are of the practical peak, a 512 x 512 x 2016 product in turn "
        "with each model: of all multiply-accumulates, and of dense ones weighted by their number.",
        "",
        "| model | MAC (M) | launches | ours ms | onnxruntime | OpenVINO f32 | tinygrad |"
        " p99 ours | x ort | x ov | x tg | GFLOP/s peak | of it | dense |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        medians = [f"{r.timings[p].median:.2f}" if p in r.timings else "–" for p in PEERS]
        ratios = [f"{v:.2f}" if (v := r.ratio(p)) else "–" for p in PEERS]
        ours = r.timings["ours"]
        lines.append(
            f"| {r.model} | {r.macs / 1e6:.0f} | {r.launches} | **{ours.median:.2f}** | "
            f"{' | '.join(medians)} | {ours.p99:.2f} | {' | '.join(ratios)} | "
            f"{r.peak_gflops:.0f} | {r.share_by_time:.0%} | {r.share_dense:.0%} |"
        )
    means = [
        f"{geometric_mean(known):.2f}"
        if (known := [v for r in results if (v := r.ratio(p))])
        else "–"
        for p in PEERS
    ]
    lines.append(f"| geometric mean | | | | | | | | {' | '.join(means)} | | | |")
    lines += [
        "",
        "| model | worst difference / range | arena MB | peak RSS MB ours / ort / ov |"
        " start cold s | warm s | build s |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        memory = " / ".join(
            f"{r.peak_kib[p] / 1024:.0f}" if p in r.peak_kib else "–"
            for p in ("ours", "onnxruntime", "openvino")
        )
        lines.append(
            f"| {r.model} | {r.difference:.1e} | {r.arena_bytes / 1e6:.1f} | {memory} | "
            f"{_seconds(r.cold_start_s)} | {r.warm_start_s:.2f} | {_seconds(r.build_s)} |"
        )
    return "\n".join(lines) + "\n"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def write(folder: Path, results: Sequence[Result], machine: str) -> None:
    """Write benchmark.md, benchmark.json and benchmark.svg to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": machine,
        "results": [asdict(result) for result in results],
    }
    (folder / "benchmark.json").write_text(json.dumps(document, indent=1) + "\n")
    (folder / "benchmark.md").write_text(markdown(results, machine))
    (folder / "benchmark.svg").write_text(chart(results))


def read(folder: Path) -> list[Result]:
    """The results that an earlier run wrote to `folder`; none where there was none."""
    path = folder / "benchmark.json"
    if not path.exists():
        return []
    results = [Result(**fields) for fields in json.loads(path.read_text())["results"]]
    for result in results:
        result.timings = {n: Timing(**t) for n, t in result.timings.items()}  # type: ignore[arg-type]
    return results


def chart(results: Sequence[Result]) -> str:
    """Horizontal bars: each peer's median over ours, on a logarithmic axis from 1/4 to 64."""
    bar, gap, left, width = 12, 14, 150, 520
    row = len(PEERS) * bar + gap
    height = len(results) * row + 50

    def x(value: float) -> float:
        return left + width * (math.log2(max(0.25, min(64.0, value))) + 2) / 8

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="{left}" y="14">median time of each peer over ours: right of 1 we are faster'
        "</text>",
    ]
    for value in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64):
        stroke = "#000" if value == 1 else "#ccc"
        parts.append(
            f'<line x1="{x(value):.0f}" x2="{x(value):.0f}" y1="24" y2="{height - 20}" '
            f'stroke="{stroke}"/><text x="{x(value) - 6:.0f}" y="{height - 6}">{value:g}</text>'
        )
    for n, result in enumerate(results):
        y = 28 + n * row
        parts.append(f'<text x="4" y="{y + 20}">{result.model}</text>')
        for k, peer in enumerate(PEERS):
            ratio = result.ratio(peer)
            if ratio is None:
                continue
            start, end = sorted((x(1), x(ratio)))
            parts.append(
                f'<rect x="{start:.1f}" y="{y + k * bar}" width="{end - start:.1f}" '
                f'height="{bar - 2}" fill="{_COLOURS[peer]}"/>'
                f'<text x="{end + 3:.1f}" y="{y + k * bar + 9}">{ratio:.2f} {peer}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"
