import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.cameras.frame import FrameLayout
from modeld.cameras.nv12 import packed_layout, venus_buffer_bytes, venus_layout, venus_used_bytes
from modeld.errors import ModeldError

even = st.integers(1, 2000).map(lambda n: 2 * n)


@pytest.mark.parametrize(
    ("size", "stride", "uv_offset", "used", "total"),
    [
        ((1928, 1208), 2048, 2490368, 3735552, 4804608),
        ((1344, 760), 1408, 1081344, 1622016, 2428928),
    ],
)
def test_venus_sizes_of_the_devices(
    size: tuple[int, int], stride: int, uv_offset: int, used: int, total: int
) -> None:
    assert venus_layout(*size) == FrameLayout(*size, stride, uv_offset)
    assert venus_used_bytes(*size) == used
    assert venus_buffer_bytes(*size) == total


def test_packed_has_no_gaps() -> None:
    layout = packed_layout(1928, 1208)
    assert layout == FrameLayout(1928, 1208, 1928, 1928 * 1208)
    assert layout.bytes == 1928 * 1208 * 3 // 2


@given(even, even)
def test_planes_fit_and_are_aligned(width: int, height: int) -> None:
    venus = venus_layout(width, height)
    assert venus.stride % 128 == 0
    assert venus.stride >= width > venus.stride - 128
    assert venus.uv_offset >= venus.stride * height
    assert venus.bytes <= venus_used_bytes(width, height) < venus_buffer_bytes(width, height)
    assert venus_buffer_bytes(width, height) % 4096 == 0


@pytest.mark.parametrize("size", [(0, 8), (8, 0), (-2, 8), (7, 8), (8, 7)])
def test_impossible_sizes_are_named(size: tuple[int, int]) -> None:
    for layout in (packed_layout, venus_layout):
        with pytest.raises(ModeldError, match=f"{size[0]}x{size[1]} cannot be NV12"):
            layout(*size)
