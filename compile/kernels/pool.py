"""Maximum and average pooling, global pooling among them, in blocked layout."""

from dataclasses import dataclass

from compile.kernels import epilogue
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import MapShape, blocks_of

_COMBINE = {
    "max": ("-INFINITY", "((a) > (b) || (a) != (a) ? (a) : (b))"),
    "average": ("0.0f", "((a) + (b))"),
}


@dataclass(frozen=True)
class Pooling:
    """Pairs are (vertical, horizontal). `kind` is max or average; an average counts the padding
    inside the declared `pads` (top, left, bottom, right) when `count_padding`."""

    kind: str
    in_map: MapShape
    out_map: MapShape
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pads: tuple[int, ...]
    count_padding: bool = False
    steps: tuple[str, ...] = ()


def render(pool: Pooling) -> Kernel:
    """The kernel for `pool`; parameters are output, input and the steps' operands."""
    first, combine = _COMBINE[pool.kind]
    name = f"{pool.kind}pool{pool.kernel[0]}x{pool.kernel[1]}_{pool.out_map.channels}"
    blocks = blocks_of(pool.out_map.channels)
    values: dict[str, int | str] = {
        "CHANNEL_BLOCKS": blocks,
        "IN_HEIGHT": pool.in_map.height,
        "IN_WIDTH": pool.in_map.width,
        "OUT_HEIGHT": pool.out_map.height,
        "OUT_WIDTH": pool.out_map.width,
        "KERNEL_HEIGHT": pool.kernel[0],
        "KERNEL_WIDTH": pool.kernel[1],
        "STRIDE_Y": pool.stride[0],
        "STRIDE_X": pool.stride[1],
        "PAD_TOP": pool.pads[0],
        "PAD_LEFT": pool.pads[1],
        "FIRST": first,
        "COMBINE(a, b)": combine,
        "SCALE": _scale(pool),
    }
    source = epilogue.render(pool.steps) + defines(values) + template("vectors", "pool")
    return make_kernel(name, source, (pool.out_map.height, pool.out_map.batch * blocks, 1))


def _scale(pool: Pooling) -> str:
    if pool.kind == "max":
        return "1.0f"
    if not pool.count_padding:
        return "(1.0f / ((bottom - from) * (right - start)))"
    # Windows that reach beyond the padding (ceil mode) count only what is inside it.
    height = f"(min(top + KERNEL_HEIGHT, IN_HEIGHT + {pool.pads[2]}) - top)"
    width = f"(min(left + KERNEL_WIDTH, IN_WIDTH + {pool.pads[3]}) - left)"
    return f"(1.0f / ({height} * {width}))"
