"""The manifest: what an artifact says about itself, as frozen dataclasses and canonical JSON.

The artifact's identity is the sha256 of `canonical_bytes(manifest)`: keys sorted, no spaces, only
strings, integers, booleans and null, so that one manifest has one spelling. The format is
specified in `artifacts/README.md`.
"""

import dataclasses
import functools
import hashlib
import json
import reprlib
import types
import typing
from dataclasses import dataclass
from typing import Any

from modeld.errors import ModeldError

FORMAT = "modeld-artifact"
FORMAT_VERSION = 1

MANIFEST_FILE = "manifest.json"
WEIGHTS_FILE = "weights.safetensors"
REFERENCE_FILE = "reference.safetensors"
SIGNATURE_FILE = "manifest.sig"
KERNELS_DIRECTORY = "kernels"

# The output of a driving network that `Contract.output_slices` cuts into heads.
OUTPUT_VECTOR = "outputs"


class FormatVersionError(ModeldError):
    """The manifest is of a format version that this runtime does not read."""


# A manifest of a large network is under 1 MB; the bound keeps a hostile file from filling memory.
MAX_MANIFEST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of the artifact: relative POSIX path, length in bytes, lower-case hex sha256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An ONNX file (or its external data) that went in: name without directories, and hash."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where the artifact comes from."""

    files: tuple[SourceFile, ...]
    ir_version: int
    opsets: dict[str, int]
    producer: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What made it. `tuning_sha256` is empty when no tuning file was used."""

    compiler: str
    tinygrad: str
    flags: dict[str, str]
    build_options: str
    tuning_sha256: str


@dataclass(frozen=True, slots=True)
class Target:
    """The OpenCL device it was built and verified on."""

    platform: str
    device: str
    driver: str
    opencl_c: str
    extensions: tuple[str, ...]
    # Offsets of sub-buffers are multiples of this many bytes.
    alignment: int
    # Row pitch of images made from buffers, in pixels; 0 where the artifact uses no images.
    image_pitch_alignment: int
    # "cpu" (few wide cores) or "gpu": which family of kernels was chosen.
    device_class: str


@dataclass(frozen=True, slots=True)
class Dtypes:
    """Precision: of stored weights, of arithmetic, of sums."""

    weights: str
    compute: str
    accumulate: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array at the door: dtype is numpy's name, meaning one line for people."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class StatePair:
    """Recurrent state: `output` of one run is `input` of the next; it starts at zero."""

    input: str
    output: str


@dataclass(frozen=True, slots=True)
class FrozenInput:
    """A graph input whose value was fixed at build time; any other value is refused."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Slice:
    """Elements [start, stop) of the flat `outputs` vector carry the head `name`."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Camera:
    """A frame size, in pixels, that `run_warp` was built for."""

    width: int
    height: int

    @property
    def name(self) -> str:
        """The camera as people write it, e.g. 1928x1208."""
        return f"{self.width}x{self.height}"


@dataclass(frozen=True, slots=True)
class Contract:
    """The runtime interface. State tensors are in `inputs` and `outputs` and paired in `state`."""

    kind: str  # "driving" or "generic"
    generation: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    state: tuple[StatePair, ...]
    frozen: tuple[FrozenInput, ...]
    output_slices: tuple[Slice, ...]
    cameras: tuple[Camera, ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A device allocation.

    Roles: `weights` (read-only, filled from the weights file), `arena` (scratch shared by
    intermediates), `input` (written by the host, or by `run_warp`), `output` (read by the host),
    `state` (one half of a state pair), `frame` (a camera frame, given by the caller).
    """

    name: str
    bytes: int
    role: str


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a contract tensor (or frame) lives: a range of a buffer."""

    tensor: str
    buffer: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Image:
    """An image2d view of an argument's bytes; `channel` is "float" or "half", four per pixel."""

    width: int
    height: int
    channel: str
    row_pitch: int  # bytes


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: bytes [offset, offset + bytes) of a buffer."""

    buffer: str
    offset: int
    bytes: int
    access: str  # "read", "write" or "read_write"
    image: Image | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel launch. `global_size` counts work-items; `local_size` null leaves it to OpenCL."""

    program: str  # path below the artifact, e.g. kernels/<sha256>.cl
    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    arguments: tuple[Argument, ...]
    nodes: tuple[str, ...]  # names of the ONNX nodes it computes, for people
    macs: int  # multiply-accumulates by the ONNX definition of those nodes; 0 where not counted


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An ordered list of calls: `run_model` (camera null), or `run_warp` for one camera."""

    name: str
    camera: Camera | None
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor of the weights file and the byte offset where it lies in the weights buffer."""

    name: str
    offset: int
    bytes: int


def head_name(head: Slice) -> str:
    """What tolerances and errors call a head of the flat vector."""
    return f"{OUTPUT_VECTOR}.{head.name}"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed difference to the reference: |x - r| <= absolute + relative * |r|, as decimals.

    `output` is an output's name, or `outputs.HEAD` for a head of the flat vector.
    """

    output: str
    absolute: str
    relative: str


@dataclass(frozen=True, slots=True)
class OutputError:
    """Worst difference of one output to a second implementation, as decimal strings."""

    output: str
    against: str
    absolute: str
    relative_to_range: str


@dataclass(frozen=True, slots=True)
class Reference:
    """Known runs, stored in the reference file as `<seed>/input/<name>` and `<seed>/output/<name>`.

    For each seed the inputs are given `turns` times from zero state; the outputs are the last
    turn's. `digest` is the sha256 of all outputs' bytes on the build device, in name order.
    """

    seeds: tuple[int, ...]
    turns: int
    tolerances: tuple[Tolerance, ...]
    digest: str
    errors: tuple[OutputError, ...]


@dataclass(frozen=True, slots=True)
class Budget:
    """Counted, so that a change shows."""

    kernels: int
    image_reads: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything the runtime believes about an artifact."""

    format: str
    format_version: int
    name: str
    created_by: str
    source: Source
    toolchain: Toolchain
    target: Target
    dtypes: Dtypes
    contract: Contract
    buffers: tuple[Buffer, ...]
    bindings: tuple[Binding, ...]
    entry_points: tuple[EntryPoint, ...]
    weights: tuple[Weight, ...]
    reference: Reference
    budget: Budget
    files: tuple[FileEntry, ...]


def canonical_bytes(manifest: Manifest) -> bytes:
    """The one spelling of a manifest: UTF-8 JSON, sorted keys, no spaces, newline at the end."""
    return _spelled(dataclasses.asdict(manifest))


def _spelled(document: Any) -> bytes:
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    # Lone surrogates, which JSON can write and UTF-8 cannot, come out as bytes that differ.
    return text.encode(errors="replace") + b"\n"


def manifest_digest(content: bytes) -> str:
    """The artifact's identity: `sha256:` and the hex digest of the manifest file's bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def parse_manifest(content: bytes) -> Manifest:
    """Read a manifest strictly: every field present, of its type, and none besides.

    Raises ModeldError naming the field by its path, e.g. `contract.inputs[2].dtype`.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModeldError(
            f"{MANIFEST_FILE} is not JSON ({error}); build the artifact again"
        ) from None
    if isinstance(document, dict):
        _check_format(document)
    manifest = typing.cast(Manifest, _decode(Manifest, document, "manifest"))
    # Two spellings of one manifest would be two identities; repeated keys would hide values.
    if _spelled(document) != content:
        raise ModeldError(
            f"{MANIFEST_FILE} is not in the canonical spelling; build the artifact again"
        )
    return manifest


def _check_format(document: dict[str, Any]) -> None:
    # Before all else, so that a newer format is called newer and not malformed.
    found = (document.get("format"), document.get("format_version"))
    if found[0] != FORMAT:
        raise ModeldError(f"{MANIFEST_FILE} has format {found[0]!r}, this runtime reads {FORMAT!r}")
    if not isinstance(found[1], int) or isinstance(found[1], bool) or found[1] != FORMAT_VERSION:
        raise FormatVersionError(
            f"{MANIFEST_FILE} has format version {found[1]!r}, this runtime reads "
            f"{FORMAT_VERSION}; use the runtime that belongs to it or build the artifact again"
        )


def _decode(kind: Any, value: Any, path: str) -> Any:
    """Turn a JSON value into `kind` (a dataclass, tuple, dict, optional, str, int or bool)."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, path)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (a for a in arguments if a is not type(None))
        return None if value is None else _decode(inner, value, path)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong_type(path, "a list", value)
        return tuple(_decode(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong_type(path, "an object", value)
        return {key: _decode(arguments[1], item, f"{path}.{key}") for key, item in value.items()}
    if type(value) is not kind:  # bool is an int to isinstance; it is not one here
        raise _wrong_type(path, kind.__name__, value)
    return value


def _decode_dataclass(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong_type(path, "an object", value)
    hints = _hints(kind)
    if missing := sorted(hints.keys() - value.keys()):
        raise ModeldError(f"{path} lacks {', '.join(missing)}; build the artifact again")
    if extra := sorted(value.keys() - hints.keys()):
        raise ModeldError(f"{path} has unknown {', '.join(extra)}; build the artifact again")
    return kind(
        **{name: _decode(hint, value[name], f"{path}.{name}") for name, hint in hints.items()}
    )


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    # Evaluating annotations anew for each of thousands of arguments would take seconds.
    return typing.get_type_hints(kind)


def _wrong_type(path: str, expected: str, value: Any) -> ModeldError:
    shown = reprlib.repr(value)  # of bounded depth, unlike what a hostile file may nest
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return ModeldError(f"{path} is {shown}, expected {expected}; build the artifact again")
