"""The reference driving network as data: layers, widths and the names of its weights.

Two camera stems see 12 channels each (two frames, 200 ms apart, 6 packed NV12 channels) and are
joined at stride 4 of the luma; four stages of residual blocks (depthwise 5x5, two pointwise) go
down to stride 64; a neck keeps a few channels of the two coarsest maps and a dense layer makes
the feature. One attention query looks back over the features of the last 4.8 s. No
normalisation layer: nothing to fold, nothing to calibrate.
"""

from dataclasses import dataclass

FEATURE = 512
IMAGE_CHANNELS = 6
IMAGE_HEIGHT = 128
IMAGE_WIDTH = 256
# Recurrent queues at 20 Hz, sampled at 5 Hz.
SKIP = 4
IMAGE_ROWS = SKIP + 1
FEATURE_STEPS = 24
FEATURE_ROWS = SKIP * FEATURE_STEPS
STEPS = FEATURE_STEPS + 1
DESIRE_ROWS = SKIP * STEPS
DESIRE = 8
TRAFFIC = 2
ACTION_T = 2

# Pixels enter as (value - PIXEL_MEAN) * PIXEL_SCALE.
PIXEL_MEAN = 128.0
PIXEL_SCALE = 1 / 64


@dataclass(frozen=True, slots=True)
class Topology:
    """What tells one size from the other. Channels; `depths` counts blocks per stage."""

    name: str
    stem: int  # channels per camera
    widths: tuple[int, int, int, int]
    depths: tuple[int, int, int, int]
    neck: tuple[int, int]  # channels kept of the maps at stride 32 and 64
    attention: int
    heads: int
    trunk: int


SMALL = Topology("small", 16, (48, 96, 160, 256), (1, 2, 2, 1), (12, 24), 128, 4, 256)
LARGE = Topology("large", 32, (96, 192, 384, 512), (2, 5, 6, 3), (16, 32), 256, 8, 512)
TOPOLOGIES = {topology.name: topology for topology in (SMALL, LARGE)}


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution with "same" padding, bias, and its epilogue.

    `residual` names an earlier layer whose output is added before the rectifier; `source` the
    layer that is read. `gain` multiplies the He standard deviation of the initial weights.
    """

    name: str
    source: str
    channels_in: int
    channels_out: int
    kernel: int
    stride: int = 1
    depthwise: bool = False
    relu: bool = True
    residual: str = ""
    gain: float = 1.0


def stem_layers(topology: Topology) -> tuple[Convolution, ...]:
    """The two first layers, reading `narrow` and `wide`; their outputs are joined as `stem`."""
    channels = 2 * IMAGE_CHANNELS
    return tuple(
        Convolution(f"stem_{camera}", camera, channels, topology.stem, 3, 2)
        for camera in ("narrow", "wide")
    )


def trunk_layers(topology: Topology) -> tuple[Convolution, ...]:
    """Stages and neck, in order. The neck's outputs are `neck_3` and `neck_4`."""
    layers: list[Convolution] = []
    source, channels = "stem", 2 * topology.stem
    # Nothing here normalises: the branches together shall add about the variance of their trunk.
    gain = float(sum(topology.depths)) ** -0.5
    for stage, (width, depth) in enumerate(zip(topology.widths, topology.depths, strict=True), 1):
        name = f"stage_{stage}.down"
        layers += [
            Convolution(f"{name}_depthwise", source, channels, channels, 3, 2, True, relu=False),
            Convolution(name, f"{name}_depthwise", channels, width, 1),
        ]
        source = name
        for block in range(1, depth + 1):
            added = _block(f"stage_{stage}.block_{block}", source, width, gain)
            layers += added
            source = added[-1].name
        if stage >= 3:
            kept = topology.neck[stage - 3]
            # No rectifier: a dozen channels that one day are all zero would never come back.
            layers.append(Convolution(f"neck_{stage}", source, width, kept, 1, relu=False))
        channels = width
    return tuple(layers)


def _block(name: str, source: str, width: int, gain: float) -> list[Convolution]:
    spread, mix, out = (f"{name}.{part}" for part in ("depthwise", "expand", "project"))
    return [
        Convolution(spread, source, width, width, 5, depthwise=True, relu=False),
        Convolution(mix, spread, width, width, 1),
        Convolution(out, mix, width, width, 1, residual=source, gain=gain),
    ]


def neck_elements(topology: Topology) -> int:
    """Length of the flattened neck: maps of 8x16 and 4x8 cells."""
    return topology.neck[0] * 8 * 16 + topology.neck[1] * 4 * 8
