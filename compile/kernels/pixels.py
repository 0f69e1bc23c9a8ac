"""Maps of bytes that a convolution reads as they are, without a float32 copy of them in memory."""

from dataclasses import dataclass

from compile.kernels import epilogue


@dataclass(frozen=True)
class Pixels:
    """The input is uint8 in ONNX's layout; `shift` is added to every value, not to the padding.

    The convolution's channels are the tensor's from `first` on, `part` at a time, and from one part
    to the next are `step` channels: with (0, 6, 24) every fourth map of a queue of maps of six.
    """

    shift: float
    first: int
    part: int
    step: int

    def defines(self, channels: int, plane: int) -> dict[str, int | str]:
        """Macros for the templates: `channels` of the convolution, `plane` pixels of a map."""
        together = self.part == self.step or channels <= self.part
        channel = "(c)" if together else f"((c) / {self.part} * {self.step} + (c) % {self.part})"
        return {
            "INPUT": "uchar",
            "IN_BYTES": 1,
            "IN_SHIFT": epilogue.literal(self.shift),
            "IN_PLANE(c)": f"(({channel} + {self.first}) * {plane})",
        }
