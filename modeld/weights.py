"""Weights from the artifact to the device: one pass that hashes while it uploads.

The safetensors header is read here and not by the library, since the library wants the whole
file in memory. Layout: 8 bytes little-endian header length, JSON header, data without holes.
"""

import json
from collections.abc import Iterator

from modeld.artifact import Artifact, refused
from modeld.manifest import WEIGHTS_FILE, Weight
from modeld.verdict import Reason

# safetensors' own bound on the header.
MAX_HEADER_BYTES = 100_000_000
# What hostile JSON provokes: nesting without end, and Infinity for an offset.
_UNREADABLE = (RecursionError, OverflowError)


def stream_weights(artifact: Artifact) -> Iterator[tuple[int, bytes]]:
    """Yield (byte offset in the weights buffer, bytes) until every weight has been given.

    Raises ArtifactRefusedError when file and manifest disagree; a wrong hash shows only at the
    end, so the buffer must not be used before the iterator is exhausted.
    """
    pending = {weight.name: weight for weight in artifact.manifest.weights}
    chunks = artifact.stream(WEIGHTS_FILE)
    head = _take(chunks, b"", 8)
    length = int.from_bytes(head[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise refused(Reason.MALFORMED, f"{WEIGHTS_FILE} header is {length} bytes long")
    head = _take(chunks, head[8:], length)
    spans = _spans(head[:length], pending)
    position, data = 0, head[length:]
    for start, stop, weight in spans:
        if start != position or stop - start != weight.bytes:
            raise refused(
                Reason.MALFORMED,
                f"{WEIGHTS_FILE}: {weight.name} spans {start}..{stop}, "
                f"expected {weight.bytes} bytes from {position}",
            )
        while position < stop:
            if not data:
                data = _next(chunks)
            piece, data = data[: stop - position], data[stop - position :]
            yield weight.offset + position - start, piece
            position += len(piece)
    if data or any(True for _ in chunks):
        raise refused(Reason.MALFORMED, f"{WEIGHTS_FILE} goes on after its last tensor")


def _spans(header: bytes, weights: dict[str, Weight]) -> list[tuple[int, int, Weight]]:
    """(start, stop, weight) in file order; names must be exactly the manifest's."""
    try:
        entries = json.loads(header)
        offsets = {name: entry["data_offsets"] for name, entry in entries.items()}
        spans = sorted((int(start), int(stop), name) for name, (start, stop) in offsets.items())
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise refused(Reason.MALFORMED, f"{WEIGHTS_FILE} has a bad header ({error!r})") from None
    if offsets.keys() != weights.keys():
        difference = sorted(offsets.keys() ^ weights.keys())
        raise refused(
            Reason.MALFORMED, f"{WEIGHTS_FILE} and manifest disagree about {difference[0]}"
        )
    return [(start, stop, weights[name]) for start, stop, name in spans]


def _take(chunks: Iterator[bytes], data: bytes, count: int) -> bytes:
    while len(data) < count:
        data += _next(chunks)
    return data


def _next(chunks: Iterator[bytes]) -> bytes:
    try:
        return next(chunks)
    except StopIteration:
        raise refused(Reason.MALFORMED, f"{WEIGHTS_FILE} ends inside a tensor") from None
