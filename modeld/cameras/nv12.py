"""NV12 buffer layouts: tightly packed, and padded as the Venus video core wants it."""

from modeld.cameras.frame import FrameLayout
from modeld.errors import ModeldError

# Alignments of Qualcomm's Venus driver for NV12 (V4L2_PIX_FMT_NV12, colour format 0).
_STRIDE_ALIGN = 128
_LUMA_ROWS_ALIGN = 32
_CHROMA_ROWS_ALIGN = 16
_PAGE = 4096


def packed_layout(width: int, height: int) -> FrameLayout:
    """Rows without gaps, chroma right after luma: what files, converters and simulators use.

    Raises ModeldError for a width or height that is not even and positive.
    """
    _check(width, height)
    return FrameLayout(width, height, width, width * height)


def venus_layout(width: int, height: int) -> FrameLayout:
    """The padded layout of camera buffers on Venus devices.

    Raises ModeldError for a width or height that is not even and positive.
    """
    _check(width, height)
    stride = _align(width, _STRIDE_ALIGN)
    return FrameLayout(width, height, stride, stride * _align(height, _LUMA_ROWS_ALIGN))


def venus_buffer_bytes(width: int, height: int) -> int:
    """Bytes a Venus camera buffer occupies, its guard areas included."""
    layout = venus_layout(width, height)
    chroma = layout.stride * _align(height // 2, _CHROMA_ROWS_ALIGN)
    guard = 4096 + max(16384, 8 * layout.stride)
    body = _align(layout.uv_offset + chroma + guard, _PAGE)
    return _align(body + _align(width, 512) * 512, _PAGE)


def venus_used_bytes(width: int, height: int) -> int:
    """Bytes of a Venus camera buffer up to its guard areas: both planes with their padding."""
    layout = venus_layout(width, height)
    return layout.uv_offset + layout.stride * _align(height // 2, _CHROMA_ROWS_ALIGN)


def _align(value: int, to: int) -> int:
    return -(-value // to) * to


def _check(width: int, height: int) -> None:
    if width <= 0 or height <= 0 or width % 2 or height % 2:
        raise ModeldError(
            f"frame size {width}x{height} cannot be NV12; give an even, positive width and height"
        )
