"""Packing of weights and strides of layouts, against the index formulas they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_bench import load, store

from compile.kernels.depthwise import pack_weights
from compile.kernels.gemv import pack_matrix
from compile.kernels.layout import (
    BLOCKED,
    LANES,
    NCHW,
    NHWC,
    MapShape,
    blocks_of,
    pack_conv_weights,
    unpack_conv_weights,
)

SIZES = st.integers(1, 40)


@given(SIZES, SIZES, st.integers(1, 3), st.integers(1, 3))
def test_every_weight_is_where_the_convolution_reads_it(
    outputs: int, inputs: int, height: int, width: int
) -> None:
    rng = np.random.default_rng(outputs * 41 + inputs)
    weights = rng.random((outputs, inputs, height, width), np.float32)
    packed = pack_conv_weights(weights)
    np.testing.assert_array_equal(unpack_conv_weights(packed, weights.shape), weights)
    assert packed.size == blocks_of(outputs) * LANES * inputs * height * width
    for o, i, y, x in zip(*(rng.integers(0, n, 20) for n in weights.shape), strict=True):
        block, tail = i // LANES, min(LANES, inputs - i // LANES * LANES)
        at = o // LANES * inputs * height * width + block * LANES * height * width
        at += (y * width + x) * tail + i % LANES
        assert packed[at * LANES + o % LANES] == weights[o, i, y, x]


def test_groups_are_packed_one_after_the_other() -> None:
    weights = np.arange(32 * 16, dtype=np.float32).reshape(32, 16, 1, 1)
    halves = [pack_conv_weights(weights[:16]), pack_conv_weights(weights[16:])]
    np.testing.assert_array_equal(pack_conv_weights(weights, 2), np.concatenate(halves))


def test_channels_beyond_the_last_are_zeros() -> None:
    packed = pack_matrix(np.ones((3, 5), np.float32)).reshape(3, LANES)
    assert (packed[:, :5] == 1).all() and (packed[:, 5:] == 0).all()
    depthwise = pack_weights(np.ones((5, 1, 3, 3), np.float32)).reshape(9, LANES)
    assert (depthwise[:, :5] == 1).all() and (depthwise[:, 5:] == 0).all()


@pytest.mark.parametrize("layout", [NCHW, NHWC, BLOCKED])
@given(st.integers(1, 2), SIZES, st.integers(1, 5), st.integers(1, 5))
def test_strides_lead_to_every_element(
    layout: str, batch: int, channels: int, height: int, width: int
) -> None:
    shape = MapShape(batch, channels, height, width)
    planes = np.arange(batch * channels * height * width, dtype=np.float32)
    planes = planes.reshape(batch, channels, height, width)
    stored = store(planes, layout)
    assert stored.shape == shape.stored(layout)
    strides = shape.strides(layout)
    n, c, p = np.ogrid[:batch, :channels, : height * width]
    at = n * strides["BATCH"] + c // LANES * strides["BLOCK"] + c % LANES * strides["CHANNEL"]
    found = stored.reshape(-1)[at + p * strides["PIXEL"]]
    np.testing.assert_array_equal(found.reshape(planes.shape), planes)
    np.testing.assert_array_equal(load(stored, layout, channels), planes)
