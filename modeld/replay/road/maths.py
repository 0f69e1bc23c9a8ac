"""The few array operations that painting a road needs, for numpy and for whoever else paints it.

Operators (+, *, <, &, ...) are taken from the arrays themselves; everything here is what array
libraries spell differently. Arrays are float32, masks are boolean.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

# An array of whichever library does the painting.
Array = Any


class Maths(Protocol):
    """Elementwise operations on one library's arrays."""

    def sqrt(self, x: Array) -> Array:
        """Square root."""

    def exp(self, x: Array) -> Array:
        """e to the power of x."""

    def log(self, x: Array) -> Array:
        """Natural logarithm."""

    def floor(self, x: Array) -> Array:
        """Largest whole number not above x, as float."""

    def rint(self, x: Array) -> Array:
        """Nearest whole number, halves to even, as float."""

    def minimum(self, x: Array, y: Array) -> Array:
        """The smaller of the two."""

    def maximum(self, x: Array, y: Array) -> Array:
        """The greater of the two."""

    def where(self, mask: Array, x: Array, y: Array) -> Array:
        """x where the mask is true, y elsewhere."""

    def choose(
        self, mask: Array, chosen: Callable[[], tuple[Array, ...]], otherwise: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        """`chosen()` where the mask is true, `otherwise` elsewhere.

        May leave out the work where the mask is true nowhere.
        """

    def unsigned(self, x: Array) -> Array:
        """Whole floats as uint32; negative ones wrap."""

    def floating(self, x: Array) -> Array:
        """float32 of unsigned numbers."""


class NumpyMaths:
    """`Maths` of numpy."""

    sqrt = staticmethod(np.sqrt)
    exp = staticmethod(np.exp)
    log = staticmethod(np.log)
    floor = staticmethod(np.floor)
    rint = staticmethod(np.rint)
    minimum = staticmethod(np.minimum)
    maximum = staticmethod(np.maximum)

    @staticmethod
    def where(mask: Array, x: Array, y: Array) -> Array:
        """As numpy, but a float32 stays one beside a Python number."""
        return np.where(mask, np.asarray(x, np.float32), np.asarray(y, np.float32))

    def choose(
        self, mask: Array, chosen: Callable[[], tuple[Array, ...]], otherwise: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        """All of `chosen` if the mask is true anywhere."""
        if not np.any(mask):
            return otherwise
        return tuple(self.where(mask, a, b) for a, b in zip(chosen(), otherwise, strict=True))

    @staticmethod
    def unsigned(x: Array) -> Array:
        """Through int32, which wraps negative numbers."""
        return np.atleast_1d(x).astype(np.int32).view(np.uint32)

    @staticmethod
    def floating(x: Array) -> Array:
        """float32 of uint32."""
        return x.astype(np.float32)


def clip01(maths: Maths, x: Array) -> Array:
    """x limited to [0, 1]."""
    return maths.minimum(maths.maximum(x, 0.0), 1.0)


def mix(x: Array, y: Array, share: Array) -> Array:
    """x where `share` is 0, y where it is 1."""
    return x + (y - x) * share


def scramble(u: Array, v: Array, seed: Array) -> Array:
    """A uint32 of each pair of uint32, without visible pattern.

    Constants: the multipliers of xxHash32 and of a two-round finaliser found by hash prospecting.
    """
    word = u * 0x9E3779B1 + v * 0x85EBCA77 + seed * 0xC2B2AE3D
    word = (word ^ (word >> 16)) * 0x7FEB352D
    word = (word ^ (word >> 15)) * 0x846CA68B
    return word ^ (word >> 16)


def unit(maths: Maths, word: Array) -> Array:
    """The top 16 bits of a uint32 as a float in [0, 1)."""
    return maths.floating(word >> 16) * (1.0 / 65536)


def noise(maths: Maths, u: Array, v: Array, seed: Array) -> Array:
    """Smooth random field in [0, 1): values at whole (u, v), blended in between."""
    left, top = maths.floor(u), maths.floor(v)
    across, down = u - left, v - top
    across, down = across * across * (3 - 2 * across), down * down * (3 - 2 * down)
    i, j, seed = maths.unsigned(left), maths.unsigned(top), maths.unsigned(seed)
    corners = [unit(maths, scramble(i + a, j + b, seed)) for b in (0, 1) for a in (0, 1)]
    return mix(mix(corners[0], corners[1], across), mix(corners[2], corners[3], across), down)


def overlap(maths: Maths, distance: Array, half: Array, width: Array) -> Array:
    """Share of a pixel of `width` around `distance` that a strip of `half` width covers."""
    inside = maths.minimum(distance + 0.5 * width, half) - maths.maximum(
        distance - 0.5 * width, -half
    )
    return maths.minimum(maths.maximum(inside, 0.0) / width, 1.0)


def ramp(maths: Maths, distance: Array, width: Array) -> Array:
    """Share of a pixel of `width` around `distance` that lies beyond zero."""
    return clip01(maths, distance / width + 0.5)
