"""Sliding windows: where they start and what padding makes them fit (ONNX Conv and Pool pages)."""

from collections.abc import Sequence
from dataclasses import dataclass

from tinygrad import Tensor

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Windows:
    """Windows over the spatial axes: padding before and after, and how many there are.

    `rounded_up` is what ceil_mode adds after the padding, so that the last window fits.
    """

    kernel: Ints
    strides: Ints
    dilations: Ints
    before: Ints
    after: Ints
    rounded_up: Ints
    count: Ints

    def over(self, x: Tensor, value: float) -> Tensor:
        """x (N, C, *spatial) padded with `value` and cut to (N, C, *count, *kernel)."""
        margins = [(0, 0)] * 2 + [
            (before, after + more)
            for before, after, more in zip(self.before, self.after, self.rounded_up, strict=True)
        ]
        # tinygrad's own view of windows, which its convolution and pooling are made of.
        windows = x.pad(tuple(margins), value=value)._pool(
            self.kernel, self.strides, self.dilations
        )
        sizes = tuple((0, count) for count in self.count)
        return windows.shrink((None, None, *sizes, *(None,) * len(self.kernel)))


def windows(
    spatial: Ints,
    kernel: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Windows:
    """The windows of a convolution or pooling over axes of sizes `spatial`."""
    rank = len(spatial)
    steps, holes = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, holes, strict=True))
    margins = _margins(spatial, reach, steps, pads, auto_pad)
    count, rounded_up = [], []
    for size, width, step, (before, after) in zip(spatial, reach, steps, margins, strict=True):
        room = size + before + after - width
        if room < 0:
            raise ValueError(f"a window of {width} does not fit into {size} + {before} + {after}")
        number = (-(-room // step) if ceil_mode else room // step) + 1
        # A window that would start beyond the input and its first padding does not count.
        if ceil_mode and (number - 1) * step >= size + before:
            number -= 1
        count.append(number)
        rounded_up.append(max((number - 1) * step - room, 0))
    before_all, after_all = (tuple(m[side] for m in margins) for side in (0, 1))
    return Windows(
        tuple(kernel), steps, holes, before_all, after_all, tuple(rounded_up), tuple(count)
    )


def _margins(
    spatial: Ints, reach: Ints, steps: Ints, pads: Sequence[int] | None, auto_pad: str
) -> list[tuple[int, int]]:
    rank = len(spatial)
    if auto_pad in ("NOTSET", ""):
        explicit = tuple(pads or (0,) * 2 * rank)
        return list(zip(explicit[:rank], explicit[rank:], strict=True))
    if auto_pad == "VALID":
        return [(0, 0)] * rank
    margins = []
    for size, width, step in zip(spatial, reach, steps, strict=True):
        total = max((-(-size // step) - 1) * step + width - size, 0)
        margins.append(share(total, auto_pad))
    return margins


def share(total: int, auto_pad: str) -> tuple[int, int]:
    """Padding split in halves; the odd one goes after (SAME_UPPER) or before (SAME_LOWER)."""
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ValueError(f"auto_pad {auto_pad!r} is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    half = total // 2
    return (half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half)
