"""Atheris target: hostile files of an artifact whose hashes fit. See README.md beside it."""

import dataclasses
import hashlib
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["modeld"]):
    from mutations import mutated
    from toy_artifact import toy_files, toy_manifest
    from toy_driver import write_driver

    from modeld.artifact import Artifact
    from modeld.errors import ModeldError
    from modeld.manifest import FileEntry, Manifest, canonical_bytes, parse_manifest
    from modeld.program_cache import ProgramCache
    from modeld.signature import parse_signatures
    from modeld.validation import validate
    from modeld.weights import stream_weights

FOLDER = Path(tempfile.mkdtemp(prefix="modeld-fuzz-", dir="/dev/shm"))
TOY = toy_manifest(toy_files())
write_driver(FOLDER / "driver")
SOUND = (canonical_bytes(TOY), (FOLDER / "driver" / "manifest.json").read_bytes())
HEADER = b'{"weight":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}'


def raw_manifest(data: bytes) -> None:
    check(parse_manifest(data))


def mutated_manifest(data: bytes) -> None:
    choices = random.Random(data)
    content = mutated(choices.choice(SOUND), choices, 1 + len(data) % 5)
    check(parse_manifest(content))


def check(manifest: Manifest) -> None:
    validate(manifest)
    sizes = {buffer.name: buffer.bytes for buffer in manifest.buffers}
    calls = [call for entry in manifest.entry_points for call in entry.calls]
    for place in (*manifest.bindings, *(a for call in calls for a in call.arguments)):
        if not 0 <= place.offset <= place.offset + place.bytes <= sizes[place.buffer]:
            raise AssertionError(f"{place} is outside its buffer")


def weights(data: bytes) -> None:
    load_weights(data)


def weight_header(data: bytes) -> None:
    header = data.partition(b"\0")[0] or HEADER
    load_weights(len(header).to_bytes(8, "little") + header + bytes(32))


def load_weights(content: bytes) -> None:
    path = "weights.safetensors"
    (FOLDER / path).write_bytes(content)
    entry = FileEntry(path, len(content), hashlib.sha256(content).hexdigest())
    manifest = dataclasses.replace(TOY, files=(entry,))
    for offset, piece in stream_weights(Artifact(FOLDER, manifest, "", b"")):
        if not 1024 <= offset <= offset + len(piece) <= 1056:
            raise AssertionError(f"{len(piece)} bytes at {offset} are outside the weight")


def signature(data: bytes) -> None:
    parse_signatures(data)


def cache_entry(data: bytes) -> None:
    (FOLDER / "key").write_bytes(data)
    if ProgramCache(FOLDER).load("key") is not None:
        raise AssertionError("a damaged entry was taken")


TARGETS: tuple[Callable[[bytes], None], ...] = (
    raw_manifest,
    mutated_manifest,
    mutated_manifest,
    weights,
    weight_header,
    signature,
    cache_entry,
)


def one_input(data: bytes) -> None:
    """The first byte chooses who reads the others."""
    if len(data) < 2:
        return
    try:
        TARGETS[data[0] % len(TARGETS)](data[1:])
    except ModeldError as error:
        if "\n" in str(error):
            raise AssertionError(f"more than one line: {error}") from error


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
