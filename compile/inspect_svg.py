"""Pictures of an artifact as SVG text: the graph of launches, their time, the arena's plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from compile.dataflow import Stay, depths
from modeld.manifest import Call, Slice

WIDTH = 1120
# Distances of two launches in the graph, and their radius.
STEP_LEAST, STEP_MOST, STEP_Y, RADIUS = 22, 60, 26, 8
PLAN_HEIGHT = 320
AXIS = 64


@dataclass(frozen=True)
class Look:
    """How a launch appears: its colour, and what is shown when it is pointed at."""

    colour: str
    title: str


def graph(calls: Sequence[Call], tensors: Sequence[Stay], looks: Sequence[Look]) -> str:
    """Launches from left to right by depth; lines are tensors."""
    depth = depths(calls, tensors)
    columns = max(depth, default=0) + 1
    step = min(max(WIDTH / columns, STEP_LEAST), STEP_MOST)
    per_band = max(int(WIDTH / step), 1)
    rows: dict[int, int] = {}  # column -> launches in it
    places = []
    for column in depth:
        places.append((column, rows.get(column, 0)))
        rows[column] = rows.get(column, 0) + 1
    # A chain that is too long for the page goes on in a new band below.
    tops = [STEP_Y // 2]
    for first in range(0, columns, per_band):
        tallest = max(rows.get(column, 0) for column in range(first, first + per_band))
        tops.append(tops[-1] + (tallest + 1) * STEP_Y)
    points = [
        ((column % per_band + 0.5) * step, float(tops[column // per_band] + row * STEP_Y))
        for column, row in places
    ]
    label = "the launches and what they hand on"
    return _svg(tops[-1] - STEP_Y // 2, label, _graph(points, step, tensors, looks))


def _graph(
    points: Sequence[tuple[float, float]],
    step: float,
    tensors: Sequence[Stay],
    looks: Sequence[Look],
) -> Iterator[str]:
    for stay in tensors:
        x0, y0 = points[stay.born]
        for reader in sorted(set(stay.readers)):
            x1, y1 = points[reader]
            # Lines that pass other launches swing clear of them.
            swing = 0.0 if x1 - x0 < 1.5 * step and y0 == y1 else STEP_Y * 0.6
            yield (
                f'<path class="edge" d="M{x0:.1f} {y0:.1f} C{x0 + step * 0.6:.1f} {y0 + swing:.1f} '
                f'{x1 - step * 0.6:.1f} {y1 + swing:.1f} {x1:.1f} {y1:.1f}"/>'
            )
    for number, ((x, y), look) in enumerate(zip(points, looks, strict=True)):
        yield (
            f"<g><title>{escape(look.title)}</title>"
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="{look.colour}"/>'
            f'<text class="number" x="{x:.1f}" y="{y + 3:.1f}">{number}</text></g>'
        )


def timeline(weights: Sequence[float], looks: Sequence[Look]) -> str:
    """All launches one after the other, as wide as their share."""
    total = sum(weights) or 1.0

    def blocks() -> Iterator[str]:
        x = 0.0
        for number, (weight, look) in enumerate(zip(weights, looks, strict=True)):
            width = weight / total * WIDTH
            yield (
                f'<g><title>{escape(look.title)}</title><rect class="block" x="{x:.2f}" y="0" '
                f'width="{width:.2f}" height="44" fill="{look.colour}"/>'
            )
            if width > 18:
                yield f'<text class="number" x="{x + width / 2:.1f}" y="26">{number}</text>'
            yield "</g>"
            x += width

    return _svg(44, "share of every launch", blocks())


def plan(calls: int, size: int, tensors: Sequence[Stay], looks: Sequence[Look]) -> str:
    """The arena: launches to the right, addresses upwards, a box for each tensor's stay."""
    across = (WIDTH - AXIS) / max(calls, 1)
    up = PLAN_HEIGHT / max(size, 1)

    def boxes() -> Iterator[str]:
        yield f'<rect class="frame" x="{AXIS}" y="0" width="{WIDTH - AXIS}" '
        yield f'height="{PLAN_HEIGHT}"/>'
        for part in range(5):
            y = PLAN_HEIGHT * (1 - part / 4)
            label = f"{size * part / 4 / 1e6:.2f} MB"
            yield f'<text class="axis" x="{AXIS - 6}" y="{min(max(y + 4, 10), PLAN_HEIGHT):.0f}">'
            yield f'{label}</text><path class="grid" d="M{AXIS} {y:.0f}H{WIDTH}"/>'
        for stay in tensors:
            look = looks[stay.born]
            title = f"{stay.bytes:,} bytes at {stay.offset:,}, launches {stay.born} to {stay.last}"
            height = max(stay.bytes * up, 1.0)
            y = PLAN_HEIGHT - stay.offset * up - height
            yield (
                f"<g><title>{title}\n{escape(look.title)}</title>"
                f'<rect class="block" x="{AXIS + stay.born * across:.2f}" y="{y:.2f}" '
                f'width="{(stay.last - stay.born + 1) * across:.2f}" height="{height:.2f}" '
                f'fill="{look.colour}"/></g>'
            )
        for number in range(0, calls, max(calls // 16, 1)):
            x = AXIS + (number + 0.5) * across
            yield f'<text class="tick" x="{x:.1f}" y="{PLAN_HEIGHT + 16}">{number}</text>'

    return _svg(PLAN_HEIGHT + 20, "the arena over the launches of a run", boxes())


def heads(slices: Sequence[Slice], colours: Sequence[str]) -> str:
    """The flat output vector with its heads; narrow ones are lettered below only in the table."""
    size = max((head.stop for head in slices), default=1)

    def blocks() -> Iterator[str]:
        for number, head in enumerate(slices):
            x, width = head.start / size * WIDTH, (head.stop - head.start) / size * WIDTH
            title = f"{escape(head.name)} [{head.start}:{head.stop}]"
            yield f'<g><title>{title}</title><rect class="block" x="{x:.2f}" y="0" '
            yield f'width="{width:.2f}" height="30" fill="{colours[number % len(colours)]}"/>'
            if width > 7 * len(head.name) + 8:
                yield f'<text class="number" x="{x + width / 2:.1f}" y="19">{escape(head.name)}'
                yield "</text>"
            yield "</g>"

    return _svg(30, "heads of the output vector", blocks())


def bar(parts: Mapping[str, int], colours: Mapping[str, str]) -> str:
    """Amounts beside each other, as wide as their share of the sum."""
    total = sum(parts.values()) or 1

    def blocks() -> Iterator[str]:
        x = 0.0
        for name, amount in parts.items():
            width = amount / total * WIDTH
            yield f"<g><title>{escape(name)}: {amount:,} bytes</title>"
            yield f'<rect class="block" x="{x:.2f}" y="0" width="{width:.2f}" height="30" '
            yield f'fill="{colours[name]}"/>'
            if width > 7 * len(name) + 8:
                yield f'<text class="number" x="{x + width / 2:.1f}" y="19">{escape(name)}</text>'
            yield "</g>"
            x += width

    return _svg(30, "device memory by role", blocks())


def _svg(height: float, label: str, parts: Iterator[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{label}">'
        + "".join(parts)
        + "</svg>"
    )
