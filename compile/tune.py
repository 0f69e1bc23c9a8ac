"""Which tile a convolution is computed with: remembered, timed on the device, or estimated.

A tuning file is JSON: the device it was measured on and one line per convolution. Builds that are
given the same file choose the same tiles, so that they make the same artifact.
"""

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyopencl as cl

from compile.device import BUILD_OPTIONS
from compile.kernels import conv, depthwise, epilogue, planar
from compile.kernels.conv import Convolution, Tile
from compile.kernels.launch import Kernel
from compile.kernels.layout import LANES
from modeld.errors import ModeldError
from modeld.files import read_small, write_result
from modeld.wake_latency import bounded_wake_latency

FORMAT = "modeld-tuning"
VERSION = 1
SHIPPED = Path(__file__).parent / "tuning"

# Candidates that are timed, best first by the cost model, and rounds over all of them.
_CANDIDATES = 6
_ROUNDS = 12
_MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True)
class Tuning:
    """Tiles by convolution (see `key_of`), measured on a device of this name."""

    device: str = ""
    tiles: Mapping[str, Tile] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The one spelling of the tuning file: sorted, one convolution a line."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "device": self.device,
            "tiles": {key: list(dataclasses.astuple(tile)) for key, tile in self.tiles.items()},
        }
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return text.replace("],", "],\n").encode() + b"\n"

    @property
    def digest(self) -> str:
        """Hex sha256 of the file; empty when it holds no tile."""
        return hashlib.sha256(self.to_bytes()).hexdigest() if self.tiles else ""


def load_tuning(path: Path) -> Tuning:
    """Read a tuning file. Raises ModeldError where it is none of this version, or too large."""
    try:
        document = json.loads(read_small(path, most=_MAX_FILE_BYTES))
        if (document["format"], document["version"]) != (FORMAT, VERSION):
            raise ValueError(f"format {document['format']!r} version {document['version']!r}")
        tiles = {str(key): _read_tile(value) for key, value in document["tiles"].items()}
        return Tuning(str(document["device"]), tiles)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModeldError(
            f"{path} is not a tuning file of version {VERSION} ({error}); "
            "delete it and build with --tune"
        ) from None


def _read_tile(value: Sequence[int]) -> Tile:
    blocks, pixels, span = value
    if any(type(n) is not int or not 1 <= n <= 1 << 20 for n in value):
        raise ValueError(f"tile {value}")
    return Tile(blocks, pixels, span)


def save_tuning(path: Path, tuning: Tuning) -> None:
    """Write a tuning file. Raises ModeldError."""
    write_result(path, tuning.to_bytes())


def shipped_tuning(device_class: str, machine: str, native_width: int) -> Tuning:
    """What comes with the compiler for this kind of device; empty when nothing does.

    `machine` is the processor's architecture, `native_width` how many floats its vectors hold.
    """
    path = SHIPPED / f"{device_class}-{machine}-{native_width}.json"
    return load_tuning(path) if path.exists() else Tuning()


def key_of(family: str, shape: Convolution) -> str:
    """A convolution as text; what follows it does not matter for its tile."""
    into, out = shape.in_map, shape.out_map
    numbers = (
        f"{into.batch}x{into.channels}x{into.height}x{into.width}"
        f" {shape.in_channels}>{out.channels}x{out.height}x{out.width}"
    )
    pairs = " ".join(
        f"{name}{a}x{b}"
        for name, (a, b) in (
            ("k", shape.kernel),
            ("s", shape.stride),
            ("d", shape.dilation),
            ("p", shape.pads),
            ("u", shape.upscale),
        )
    )
    element = "" if shape.pixels is None else " uint8"
    layouts = f"{shape.in_layout}>{shape.out_layout}"
    return f"{family} {numbers} {pairs} g{shape.groups} {layouts}{element}"


class Tiles:
    """Chooses tiles: from `tuning`, else by timing while the budget lasts, else by estimate.

    `measure` gives seconds for each of some kernels; without it nothing is timed. `native_width`
    is how many floats the device's vectors hold. `chosen` is the tuning that makes the same
    choices again.
    """

    def __init__(
        self,
        tuning: Tuning,
        measure: "Callable[[Convolution, Sequence[Kernel]], list[float]] | None" = None,
        budget_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        native_width: int = LANES,
    ) -> None:
        self._sums = conv.max_sums(native_width)
        self._tuning = tuning
        self._measure = measure
        self._clock = clock
        self._end = clock() + budget_s
        self._chosen: dict[str, Tile] = {}

    @property
    def chosen(self) -> Tuning:
        """The tiles that were asked for and not estimated."""
        return Tuning(self._tuning.device, dict(self._chosen))

    def convolution(self, shape: Convolution) -> Tile:
        """For the direct convolution."""
        return self._choose("direct", shape, conv.candidates, conv.render)

    def estimated(self, shape: Convolution) -> Tile:
        """For a direct convolution inside another kernel, which timed alone would mislead."""
        return conv.candidates(shape, self._sums)[0]

    def depthwise(self, shape: Convolution) -> Tile:
        """For the depthwise convolution."""
        return self._choose("depthwise", shape, depthwise.candidates, depthwise.render)

    def planar(self, shape: Convolution) -> Tile:
        """For the convolution in planes: as many outputs as fit the registers."""
        return planar.tile(shape, self._sums)

    def _choose(
        self,
        family: str,
        shape: Convolution,
        candidates: Callable[[Convolution, int], list[Tile]],
        render: Callable[[Convolution, Tile], Kernel],
    ) -> Tile:
        key = key_of(family, shape)
        ranked = candidates(shape, self._sums)
        tile = self._chosen.get(key, self._tuning.tiles.get(key))
        # A file from elsewhere may name a tile that this convolution cannot have.
        if tile is None or (tile.blocks, tile.pixels) not in {(t.blocks, t.pixels) for t in ranked}:
            if self._measure is None or self._clock() >= self._end:
                return ranked[0]
            timed = ranked[:_CANDIDATES]
            seconds = self._measure(shape, [render(shape, t) for t in timed])
            tile = min(zip(seconds, timed, strict=True))[1]
        self._chosen[key] = tile
        return tile


class DeviceTimer:
    """Times kernels of one convolution on a device, side by side."""

    def __init__(self, device: cl.Device) -> None:
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(
            self._context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )

    def __call__(self, shape: Convolution, kernels: Sequence[Kernel]) -> list[float]:
        """The shortest device time of each kernel, in seconds."""
        run = self.prepare(shape, kernels)
        best = [math.inf] * len(kernels)
        with bounded_wake_latency():
            for _ in range(_ROUNDS):
                for n in range(len(kernels)):
                    best[n] = min(best[n], run(n))
        return best

    def prepare(self, shape: Convolution, kernels: Sequence[Kernel]) -> Callable[[int], float]:
        """Compile the kernels; what is returned runs the n-th and gives its device time in
        seconds."""
        buffers = [self._buffer(size) for size in _argument_elements(shape)]
        sources = {kernel.name: kernel.source for kernel in kernels}
        program = cl.Program(self._context, "".join(sources.values())).build(BUILD_OPTIONS)
        built = [cl.Kernel(program, kernel.name) for kernel in kernels]

        def run(n: int) -> float:
            kernel = kernels[n]
            # A kernel does not keep its arguments alive.
            built[n].set_args(*buffers)
            event = cl.enqueue_nd_range_kernel(
                self._queue, built[n], kernel.global_size, kernel.local_size
            )
            event.wait()
            return float(event.profile.end - event.profile.start) * 1e-9

        return run

    def _buffer(self, elements: int) -> cl.Buffer:
        # Not zeros: a device may be quicker with those.
        values = np.linspace(-1.0, 1.0, elements, dtype=np.float32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=values)


def _argument_elements(shape: Convolution) -> list[int]:
    """Sizes of the kernel's arguments: output, input, weights, operands."""
    out = math.prod(shape.out_map.stored(shape.out_layout))
    channels, tensors = epilogue.operand_counts(shape.steps)
    padded = conv.all_blocks(shape) * LANES
    per_output = max(1, shape.per_group) * math.prod(shape.kernel)
    sizes = [out, math.prod(shape.in_map.stored(shape.in_layout)), padded * per_output]
    return [*sizes, *[padded] * channels, *[out] * tensors]
