"""`modeld-compile inspect --html`: everything about an artifact on one page that needs no other.

No script, no request to anywhere. Whatever comes from the manifest is escaped: names are the
model author's.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from compile import inspect_svg as svg
from compile.dataflow import stays
from compile.inspect import call_bytes, model_entry
from compile.inspect_style import PALETTE, STYLE
from modeld.artifact import Artifact
from modeld.manifest import Call, Manifest, Tensor

OTHERS = "others"
ROLES = ("weights", "arena", "input", "output", "state", "frame")


def page(artifact: Artifact, times: Sequence[float] | None = None) -> str:
    """The page; `times` are measured microseconds of every `run_model` launch."""
    manifest = artifact.manifest
    calls = model_entry(manifest).calls
    weights = list(times) if times else [float(call.macs) for call in calls]
    colours = _families(calls, weights)
    looks = [
        svg.Look(colours[family(call)], _title(number, call, times))
        for number, call in enumerate(calls)
    ]
    tensors = stays(calls)
    arena = sum(buffer.bytes for buffer in manifest.buffers if buffer.role == "arena")
    scratch = [stay for stay in tensors if stay.buffer == "arena"]
    shares = "measured time" if times else "multiply-accumulates (times with --measure)"
    sections = (
        _header(artifact, times),
        _section("Contract", _contract(manifest)),
        _section("Graph", _legend(colours), svg.graph(calls, tensors, looks)),
        _section(f"Timeline: {shares}", svg.timeline(weights, looks)),
        _section(
            "Memory",
            _memory(manifest),
            "<h3>The arena: which tensor lies where, from its writer to its last reader</h3>",
            svg.plan(len(calls), arena, scratch, looks),
        ),
        _section("Known runs", _known(manifest)),
        _section("Launches", _launches(calls, weights, times, colours)),
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(manifest.name)}</title><style>{STYLE}</style></head><body>"
        + "".join(sections)
        + "</body></html>\n"
    )


def family(call: Call) -> str:
    """What kernels of one kind share: the letters that their names begin with."""
    match = re.match(r"[A-Za-z]+", call.kernel)
    return match[0] if match else call.kernel


def _families(calls: Sequence[Call], weights: Sequence[float]) -> dict[str, str]:
    """A colour for each family; the last one for all beyond the palette."""
    totals: dict[str, float] = {}
    for call, weight in zip(calls, weights, strict=True):
        totals[family(call)] = totals.get(family(call), 0.0) + weight
    ordered = sorted(totals, key=lambda name: (-totals[name], name))
    return {name: PALETTE[min(i, len(PALETTE) - 1)] for i, name in enumerate(ordered)}


def _title(number: int, call: Call, times: Sequence[float] | None) -> str:
    time = f", {times[number]:.1f} µs" if times else ""
    nodes = ", ".join(call.nodes) or "no node of its own"
    return f"{number}: {call.kernel}{time}, {call.macs / 1e6:.2f} M MAC\n{nodes}"


def _header(artifact: Artifact, times: Sequence[float] | None) -> str:
    manifest = artifact.manifest
    calls = model_entry(manifest).calls
    facts = [
        (f"{len(calls)}", "launches"),
        (f"{sum(call.macs for call in calls) / 1e6:,.1f} M", "multiply-accumulates"),
        (_megabytes(sum(w.bytes for w in manifest.weights)), "weights"),
        (_megabytes(sum(b.bytes for b in manifest.buffers)), "on the device"),
    ]
    if times:
        facts.append((f"{sum(times) / 1e3:.2f} ms", "device time of a run"))
    cards = "".join(f"<div><b>{value}</b>{name}</div>" for value, name in facts)
    files = ", ".join(file.name for file in manifest.source.files)
    opsets = ", ".join(f"{d or 'onnx'} {v}" for d, v in sorted(manifest.source.opsets.items()))
    target = manifest.target
    rows = (
        ("identity", artifact.digest),
        ("source", f"{files} (opset {opsets}, by {manifest.source.producer or 'unknown'})"),
        ("made by", f"{manifest.created_by}, tinygrad {manifest.toolchain.tinygrad}"),
        ("target", f"{target.device} on {target.platform}, driver {target.driver}"),
        ("needs", f"{target.device_class}, {', '.join(target.extensions) or 'no extension'}"),
    )
    return (
        f"<header><h1>{escape(manifest.name)}</h1><div class=cards>{cards}</div>"
        + _table((), rows)
        + "</header>"
    )


def _contract(manifest: Manifest) -> str:
    contract = manifest.contract
    before = {pair.input for pair in contract.state}
    after = {pair.output for pair in contract.state}

    def row(kind: str, tensor: Tensor) -> tuple[str, ...]:
        shape = " × ".join(map(str, tensor.shape)) or "scalar"
        return kind, tensor.name, tensor.dtype, shape, tensor.meaning

    rows = [row("state" if t.name in before else "input", t) for t in contract.inputs]
    rows += [row("output", t) for t in contract.outputs if t.name not in after]
    cameras = ", ".join(camera.name for camera in contract.cameras)
    text = f"<p>{escape(contract.kind)} ({escape(contract.generation)})"
    text += f", cameras {cameras}</p>" if cameras else "</p>"
    text += _table(("", "name", "type", "shape", "meaning"), rows)
    if contract.output_slices:
        text += "<h3>Heads of the output vector</h3>"
        text += svg.heads(contract.output_slices, PALETTE)
        text += '<p class="small">' + ", ".join(
            f"{escape(head.name)} [{head.start}:{head.stop}]" for head in contract.output_slices
        )
        text += "</p>"
    return text


def _memory(manifest: Manifest) -> str:
    sizes = {
        role: sum(b.bytes for b in manifest.buffers if b.role == role)
        for role in ROLES
        if any(b.role == role for b in manifest.buffers)
    }
    colours = dict(zip(ROLES, PALETTE, strict=False))
    text = svg.bar(sizes, colours)
    listed = ", ".join(f"{role} {size:,}" for role, size in sizes.items())
    return text + f'<p class="small">bytes: {listed}</p>'


def _known(manifest: Manifest) -> str:
    reference = manifest.reference
    errors = {error.output: error for error in reference.errors}
    rows = []
    for tolerance in reference.tolerances:
        error = errors.get(tolerance.output)
        found = (error.against, error.absolute, error.relative_to_range) if error else ("–",) * 3
        rows.append((tolerance.output, *found, tolerance.absolute))
    seeds = ", ".join(map(str, reference.seeds))
    return f"<p>Seeds {seeds}, {reference.turns} turns each from zero state.</p>" + _table(
        ("output", "compared with", "worst difference", "of range", "allowed"), rows
    )


def _legend(colours: dict[str, str]) -> str:
    items = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in list(colours.items())[: len(PALETTE)]
    )
    return f"<div class=legend>{items}</div>"


def _launches(
    calls: Sequence[Call],
    weights: Sequence[float],
    times: Sequence[float] | None,
    colours: dict[str, str],
) -> str:
    total, most = sum(weights) or 1.0, max(weights, default=0.0) or 1.0
    measured = ("µs", "GMAC/s") if times else ()
    head = ("#", "kernel", "nodes", "share", "", *measured, "M MAC", "kB", "work-items", "group")
    rows = []
    for number, (call, weight) in enumerate(zip(calls, weights, strict=True)):
        bar = (
            f'<i class=bar style="width:{weight / most * 100:.1f}px;'
            f'background:{colours[family(call)]}"></i>'
        )
        timing: tuple[str, ...] = ()
        if times:
            rate = call.macs / times[number] / 1e3 if times[number] else 0.0
            timing = (f"{times[number]:.1f}", f"{rate:.1f}")
        cells = (
            str(number),
            f"<code>{escape(call.kernel)}</code>",
            escape(", ".join(call.nodes)),
            bar,
            f"{weight / total:.1%}",
            *timing,
            f"{call.macs / 1e6:.2f}",
            f"{call_bytes(call) / 1e3:,.0f}",
            " × ".join(map(str, call.global_size)),
            " × ".join(map(str, call.local_size)) if call.local_size else "free",
        )
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    titles = "".join(f"<th>{title}</th>" for title in head)
    return f"<table class=launches><tr>{titles}</tr>{''.join(rows)}</table>"


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def lines() -> Iterator[str]:
        if head:
            yield "<tr>" + "".join(f"<th>{escape(title)}</th>" for title in head) + "</tr>"
        for row in rows:
            yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"

    return f"<table>{''.join(lines())}</table>"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
