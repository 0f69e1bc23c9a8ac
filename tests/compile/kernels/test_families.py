"""Pooling, joins of channels, dense layers, softmax and normalisation, each against numpy."""

import numpy as np
import pytest
from kernel_bench import UNTOUCHED, Bench, load, store

from compile.kernels import gemv, mix, pool, rows, stack
from compile.kernels.gemv import Product
from compile.kernels.layout import BLOCKED, NCHW, MapShape, pad_channels
from compile.kernels.mix import Mix, Source
from compile.kernels.pool import Pooling
from compile.kernels.rows import Rows
from compile.kernels.spec import decode, encode
from compile.kernels.stack import Segment, Stack


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def _windows(x: np.ndarray, pads: tuple[int, ...], fill: float, stride: int) -> np.ndarray:
    margins = [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])]
    padded = np.pad(x, margins, constant_values=fill)
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (2, 3))
    return views[:, :, ::stride, ::stride]


@pytest.mark.parametrize("kind", ["max", "average", "average with padding"])
def test_pooling(kind: str, bench: Bench) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 18, 7, 9), np.float32)
    pads = (1, 0, 2, 1)
    if kind == "max":
        expected = np.nanmax(_windows(x, pads, np.nan, 2), (-1, -2))
    elif kind == "average":
        expected = np.nanmean(_windows(x, pads, np.nan, 2), (-1, -2))
    else:
        expected = _windows(x, pads, 0.0, 2).mean((-1, -2))
    shape = Pooling(
        kind.split()[0],
        MapShape(*x.shape),
        MapShape(*expected.shape),
        (3, 2),
        (2, 2),
        pads,
        kind.endswith("padding"),
        ("mul number 2.0",),
    )
    outs = [shape.out_map.stored(BLOCKED)]
    (stored,) = bench.run(pool.render(shape), outs, [store(x, BLOCKED)])
    found = load(stored, BLOCKED, 18)
    np.testing.assert_allclose(found, 2 * expected, rtol=1e-6, atol=1e-6)


def test_join_of_channels_in_any_layout(bench: Bench) -> None:
    rng = np.random.default_rng(1)
    maps = [rng.standard_normal((2, c, 3, 5), np.float32) for c in (16, 19, 3, 40)]
    layouts = (BLOCKED, BLOCKED, NCHW, BLOCKED)
    spans = ((0, 16), (2, 19), (0, 3), (16, 36))
    sources = tuple(
        Source(MapShape(*m.shape), layout, *span)
        for m, layout, span in zip(maps, layouts, spans, strict=True)
    )
    spec = Mix(sources, ("add channel 0", "relu"))
    bias = rng.standard_normal(spec.out_map.channels, np.float32)
    joined = np.concatenate([m[:, a:b] for m, (a, b) in zip(maps, spans, strict=True)], 1)
    inputs = [store(m, layout) for m, layout in zip(maps, layouts, strict=True)]
    outs = [spec.out_map.stored(BLOCKED)]
    (stored,) = bench.run(mix.render(spec), outs, [*inputs, pad_channels(bias)])
    found = load(stored, BLOCKED, spec.out_map.channels)
    np.testing.assert_array_equal(found, np.maximum(joined + bias[:, None, None], 0))


def test_enlarged_channels_are_read_in_place(bench: Bench) -> None:
    rng = np.random.default_rng(3)
    small = rng.standard_normal((1, 18, 2, 3), np.float32)
    whole = rng.standard_normal((1, 5, 4, 9), np.float32)
    sources = (
        Source(MapShape(*small.shape), BLOCKED, 0, 18, (2, 3)),
        Source(MapShape(*whole.shape), NCHW, 0, 5),
    )
    spec = Mix(sources)
    assert spec.out_map == MapShape(1, 23, 4, 9)
    outs = [spec.out_map.stored(BLOCKED)]
    (stored,) = bench.run(mix.render(spec), outs, [store(small, BLOCKED), whole])
    expected = np.concatenate([small.repeat(2, 2).repeat(3, 3), whole], 1)
    np.testing.assert_array_equal(load(stored, BLOCKED, 23), expected)


def test_stack_is_rows_of_channels(bench: Bench) -> None:
    rng = np.random.default_rng(4)
    shapes = [[(BLOCKED, 18), (NCHW, 3)], [(BLOCKED, 5)]]
    sizes = [(7, 11), (2, 3)]
    segments, inputs, rows_of_channels = [], [], []
    for parts, size in zip(shapes, sizes, strict=True):
        maps = [rng.standard_normal((1, c, *size), np.float32) for _, c in parts]
        sources = [Source(MapShape(1, c, *size), layout, 0, c) for layout, c in parts]
        segments.append(Segment(tuple(sources)))
        inputs += [store(m, layout) for m, (layout, _) in zip(maps, parts, strict=True)]
        rows_of_channels.append(np.concatenate(maps, 1).transpose(0, 2, 3, 1).reshape(-1))
    expected = np.concatenate(rows_of_channels)
    kernel = stack.render(Stack(tuple(segments)))
    (found,) = bench.run(kernel, [(expected.size + 9,)], inputs)
    np.testing.assert_array_equal(found[:-9], expected)
    assert (found[-9:] == UNTOUCHED).all()


def test_dense_layers_share_a_launch(bench: Bench) -> None:
    rng = np.random.default_rng(2)
    sizes = [(70, 33), (5, 1), (64, 256), (3, 16)]
    products = [Product(k, n, ("add channel 0", "tanh")) for k, n in sizes]
    inputs, expected = [], []
    for k, n in sizes:
        x, bias = rng.standard_normal(k, np.float32), rng.standard_normal(n, np.float32)
        matrix = rng.standard_normal((k, n), np.float32) / np.float32(k**0.5)
        inputs += [x, gemv.pack_matrix(matrix), pad_channels(bias)]
        expected.append(np.tanh(x @ matrix + bias))
    # Guarded by elements behind each output that must stay as they were.
    outs = [(n + 7,) for _, n in sizes]
    found = bench.run(gemv.render(products), outs, inputs)
    for y, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(y[:-7], e, rtol=1e-5, atol=1e-6)
        assert (y[-7:] == UNTOUCHED).all()


def test_dense_layer_adds_a_tensor(bench: Bench) -> None:
    product = Product(4, 21, ("add tensor 0",))
    inputs = [np.ones(4), gemv.pack_matrix(np.ones((4, 21), np.float32)), np.arange(21)]
    (found,) = bench.run(gemv.render([product]), [(21,)], inputs)
    np.testing.assert_array_equal(found, np.arange(21) + 4)


@pytest.mark.parametrize("length", [1, 16, 37])
def test_softmax(length: int, bench: Bench) -> None:
    x = np.random.default_rng(length).standard_normal((9, length), np.float32) * 30
    (found,) = bench.run(rows.render(Rows("softmax", 9, length)), [x.shape], [x])
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=2e-6, atol=1e-9)


def test_normalisation(bench: Bench) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((9, 48), np.float32) * 3 + 100
    scale, bias = rng.standard_normal((2, 48), np.float32)
    spec = Rows("normalise", 9, 48, "1e-05", ("mul channel 0", "add channel 1", "add tensor 0"))
    (found,) = bench.run(rows.render(spec), [x.shape], [x, scale, bias, x])
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    normal = centred / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    # Around 100 a float32 is good to 4e-6, a hundredth of that per standard deviation.
    np.testing.assert_allclose(found, normal * scale + bias + x, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "spec",
    [
        Mix((Source(MapShape(1, 2, 3, 4), NCHW, 0, 2),), ("relu",)),
        Product(3, 4),
        Stack((Segment((Source(MapShape(1, 2, 3, 4), NCHW, 0, 2, (2, 1)),)),)),
        Pooling("max", MapShape(1, 2, 3, 4), MapShape(1, 2, 1, 1), (3, 4), (1, 1), (0, 0, 0, 0)),
        Rows("softmax", 3, 4),
    ],
)
def test_descriptions_survive_an_attribute(spec: object) -> None:
    assert decode(type(spec), encode(spec)) == spec
