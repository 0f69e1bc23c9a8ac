"""Attention as one kernel in the forms that exporters write: with and without fusion, against
onnxruntime; what is none stays as it is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from fused_models import Node, make_model, own_kernels, run_ort, run_ours

from compile.fuse import fuse
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

RNG = np.random.default_rng(0)
# Sums of at most 150 weights and values around 1, of scores of at most about 10.
TOLERANCE = 1e-5
Shape = tuple[int, ...]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass
class Case:
    """Nodes to `y`, from inputs of the given shapes, and which kernels of ours they become."""

    nodes: Sequence[Node]
    inputs: dict[str, Shape]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    kernels: dict[str, int] = field(default_factory=lambda: {"DotProductAttention": 1})
    outputs: Sequence[str] = ("y",)
    opset: int = 17

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        return make_model(self.nodes, self.inputs, self.outputs, self.constants, self.opset)

    def fused(self) -> onnx.ModelProto:
        """The model with our kernels in it; which they are is checked."""
        fused = fuse(self.model(), Tiles(Tuning()))
        private = own_kernels(fused)
        assert private == Counter(self.kernels)
        return fused


def product(*nodes: Node, key: str = "k") -> list[Node]:
    """Scores of q and k, `nodes` from "s" to "t", softmax, times v."""
    return [
        ("Transpose", key, "kt", {"perm": [0, 1, 3, 2]}),
        ("MatMul", "q kt", "s", {}),
        *nodes,
        ("Softmax", "t" if nodes else "s", "p", {"axis": -1}),
        ("MatMul", "p v", "y", {}),
    ]


def heads(positions: int = 37, keys: int = 53, width: int = 20) -> dict[str, Shape]:
    return {
        "q": (2, 3, positions, width),
        "k": (2, 3, keys, width),
        "v": (2, 3, keys, width + 1),
    }


def together(batch: int, count: int, width: int, positions: int = 40) -> dict[str, Shape]:
    return {"x": (batch, positions, 3 * count * width)}


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


HALF_MASKED = np.where(RNG.random((37, 53)) < 0.5, -np.inf, 0).astype(np.float32)
MERGED: list[Node] = [
    ("Transpose", "o", "ot", {"perm": [0, 2, 1, 3]}),
    ("Reshape", "ot rows", "y", {}),
]


def attention(query: str, key: str, value: str) -> list[Node]:
    """Scores of two values of (batch, head, position, channel) and (…, channel, position)."""
    return [
        ("MatMul", f"{query} {key}", "s", {}),
        ("Softmax", "s", "p", {"axis": -1}),
        ("MatMul", f"p {value}", "o", {}),
    ]


def dual(width: int, *after: Node) -> list[Node]:
    """Attention of the positions of maps: (1, width, 48) each, and channels are rows."""
    return [
        ("Conv", "x wq", "mq", {}),
        ("Conv", "x wk", "mk", {}),
        ("Conv", "x wv", "mv", {}),
        ("Reshape", "mq flat", "fq", {}),
        ("Transpose", "fq", "q", {"perm": [0, 2, 1]}),
        ("Reshape", "mk flat", "k", {}),
        ("MatMul", "q k", "s", {}),
        ("Softmax", "s", "p", {"axis": -1}),
        ("Reshape", "mv flat", "v", {}),
        ("Transpose", "p", "pt", {"perm": [0, 2, 1]}),
        ("MatMul", "v pt", "o", {}),
        ("Reshape", "o map", "r", {}),
        *after,
    ]


def maps(width: int) -> dict[str, np.ndarray]:
    return {
        **{f"w{n}": normal(width, 5, 1, 1) / 3 for n in "qkv"},
        "w": normal(3, width, 1, 1) / 4,
        "gain": normal(1),
        "flat": whole(1, width, -1),
        "map": whole(1, width, 6, 8),
    }


CASES: dict[str, Case] = {
    "timm: one reshape of all, split and squeezed, scaled queries": Case(
        [
            ("MatMul", "x w", "m", {}),
            ("Add", "b m", "a", {}),
            ("Reshape", "a five", "r", {}),
            ("Transpose", "r", "t", {"perm": [2, 0, 3, 1, 4]}),
            ("Split", "t thirds", "q1 k1 v1", {"axis": 0}),
            ("Squeeze", "q1 zero", "q2", {}),
            ("Squeeze", "k1 zero", "k", {}),
            ("Squeeze", "v1 zero", "v", {}),
            ("Mul", "q2 scale", "q", {}),
            ("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}),
            *attention("q", "kt", "v"),
            *MERGED,
        ],
        {"x": (1, 70, 24)},
        {
            "w": normal(24, 96) / 5,
            "b": normal(96),
            "five": whole(1, 70, 3, 2, 16),
            "thirds": whole(1, 1, 1),
            "zero": whole(0),
            "scale": scalar(0.25),
            "rows": whole(1, 70, 32),
        },
        {"Convolution": 1, "DotProductAttention": 1},
    ),
    "timm: gathered, scores divided": Case(
        [
            ("Reshape", "x five", "r", {}),
            ("Transpose", "r", "t", {"perm": [2, 0, 3, 1, 4]}),
            ("Gather", "t 0", "q", {"axis": 0}),
            ("Gather", "t 1", "k", {"axis": 0}),
            ("Gather", "t 2", "v", {"axis": 0}),
            ("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}),
            ("MatMul", "q kt", "s", {}),
            ("Div", "s root", "d", {}),
            ("Softmax", "d", "p", {"axis": 3}),
            ("MatMul", "p v", "o", {}),
            *MERGED,
        ],
        together(2, 3, 8),
        {
            "five": whole(2, 40, 3, 3, 8),
            **{str(n): np.array(n) for n in range(3)},
            "root": scalar(8**0.5),
            "rows": whole(2, 40, 24),
        },
    ),
    "torch: slices of channels, both sides scaled": Case(
        [
            ("Slice", "x 0 24 last", "q0", {}),
            ("Slice", "x 24 48 last", "k0", {}),
            ("Slice", "x 48 end last one", "v0", {}),
            ("Reshape", "q0 four", "q1", {}),
            ("Reshape", "k0 four", "k1", {}),
            ("Reshape", "v0 four", "v1", {}),
            ("Transpose", "q1", "q2", {"perm": [0, 2, 1, 3]}),
            ("Transpose", "k1", "k2", {"perm": [0, 2, 3, 1]}),
            ("Transpose", "v1", "v", {"perm": [0, 2, 1, 3]}),
            ("Mul", "q2 scale", "q", {}),
            ("Mul", "scale k2", "k", {}),
            *attention("q", "k", "v"),
            *MERGED,
        ],
        together(2, 2, 12),
        {
            **{str(n): whole(n) for n in (0, 24, 48)},
            "end": whole(2**62),
            "last": whole(-1),
            "one": whole(1),
            "four": whole(2, 40, 2, 12),
            "scale": scalar(12**-0.25),
            "rows": whole(2, 40, 24),
        },
    ),
    "one head, split along channels": Case(
        [
            ("Split", "x", "q k v", {"axis": -1}),
            ("Transpose", "k", "kt", {"perm": [0, 2, 1]}),
            ("MatMul", "q kt", "s", {}),
            ("Softmax", "s", "p", {}),
            ("MatMul", "p v", "y", {}),
        ],
        together(1, 1, 24, positions=150),
        opset=13,
    ),
    "more keys than queries, of another width": Case(product(), heads()),
    "keys of a chunk and a tile": Case(product(), heads(positions=300, keys=136)),
    "keys scaled and divided before, scores after": Case(
        [
            ("Mul", "two k", "k1", {}),
            ("Div", "k1 eight", "k2", {}),
            *product(("Mul", "s two", "t", {}), key="k2"),
        ],
        heads(),
        {"two": scalar(2), "eight": np.array([8], np.float32)},
    ),
    "a known mask": Case(
        product(("Div", "s four", "d", {}), ("Add", "mask d", "t", {})),
        heads(),
        {"four": scalar(4), "mask": normal(37, 53)},
    ),
    "a mask that drops keys": Case(
        product(("Add", "s mask", "t", {})), heads(), {"mask": HALF_MASKED}
    ),
    "a mask for each batch and key": Case(
        product(("Add", "s mask", "t", {})), {**heads(), "mask": (2, 1, 1, 53)}
    ),
    "a mask for each head and pair": Case(
        product(("Add", "s mask", "t", {})), {**heads(), "mask": (3, 37, 53)}
    ),
    "maps of whole blocks, in and out": Case(
        dual(16, ("Mul", "r gain", "g", {}), ("Conv", "g w", "y", {})),
        {"x": (1, 5, 6, 8)},
        maps(16),
        {"Convolution": 4, "DotProductAttention": 1, "Elementwise": 1},
    ),
    "maps of other widths": Case(
        dual(20, ("Conv", "r w", "y", {})),
        {"x": (1, 5, 6, 8)},
        maps(20),
        {"Convolution": 4, "DotProductAttention": 1},
    ),
    "heads that are half blocks of a map": Case(
        [
            ("Conv", "x w", "m", {}),
            ("Reshape", "m four", "r", {}),
            ("Split", "r", "q0 k v0", {"axis": 2}),
            ("Transpose", "q0", "q", {"perm": [0, 1, 3, 2]}),
            ("Transpose", "v0", "v", {"perm": [0, 1, 3, 2]}),
            *attention("q", "k", "v"),
            ("Transpose", "o", "ot", {"perm": [0, 1, 3, 2]}),
            ("Reshape", "ot map", "y", {}),
            ("GlobalMaxPool", "m", "z", {}),
        ],
        {"x": (1, 5, 6, 8)},
        {"w": normal(48, 5, 1, 1) / 3, "four": whole(1, 2, 24, 48), "map": whole(1, 16, 6, 8)},
        {"Convolution": 1, "DotProductAttention": 1, "Pool": 1, "FromBlocked": 2},
        outputs=("y", "z"),
    ),
    "before opset 13 the axis is stated": Case(product(), heads(), opset=12),
    "scaled after the mask": Case(
        product(("Add", "s mask", "a", {}), ("Mul", "a two", "t", {})),
        heads(),
        {"mask": HALF_MASKED, "two": scalar(2)},
        {"Rows": 1},
    ),
    "scores that something else reads": Case(
        [*product(), ("ReduceMax", "p", "z", {})], heads(), {}, {"Rows": 1}, outputs=("y", "z")
    ),
    "a softmax over queries": Case(
        [
            ("MatMul", "q k", "s", {}),
            ("Softmax", "s", "p", {"axis": 1}),
            ("MatMul", "p v", "y", {}),
        ],
        {"q": (2, 16, 20), "k": (2, 20, 16), "v": (2, 16, 20)},
        {},
        {"Convolution": 1},
    ),
    "few queries": Case(product(), heads(positions=3), {}, {"Rows": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_attention(name: str) -> None:
    case = CASES[name]
    model = case.model()
    inputs = {n: normal(*shape) for n, shape in case.inputs.items()}
    expected = run_ort(model, inputs)
    for graph in (case.fused(), model):
        for found, wanted in zip(run_ours(graph, inputs), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


# (input, index of what is not finite, value): what becomes of the rest is onnxruntime's to say.
BROKEN: dict[str, tuple[str, tuple[int | slice, ...], float]] = {
    "a query": ("q", (0, 1, 5, 2), np.nan),
    "a key": ("k", (1, 0, 52, 7), np.nan),
    "a value": ("v", (1, 2, 30, 3), np.nan),
    "an infinite value": ("v", (1, 2, 30, 3), np.inf),
    "an infinite query": ("q", (0, 1, 5, 2), np.inf),
    "the mask": ("mask", (0, 0, 9, 52), np.nan),
    "scores of infinity": ("mask", (0, 0, 9, 3), np.inf),
    "keys that are all masked": ("mask", (0, 0, 9, slice(None)), -np.inf),
    "keys that are all masked by the least number": ("mask", (0, 0, 9, slice(None)), -3.4028235e38),
    "a first chunk of masked keys": ("mask", (0, 0, 9, slice(0, 130)), -np.inf),
    "one key that is not masked": ("mask", (0, 0, 9, slice(1, None)), -np.inf),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_finite(name: str) -> None:
    shapes = heads(keys=150) | {"mask": (1, 1, 37, 150)}
    case = Case(product(("Add", "s mask", "t", {})), shapes)
    inputs = {n: normal(*shape) for n, shape in shapes.items()}
    broken, place, value = BROKEN[name]
    inputs[broken][place] = value
    (expected,) = run_ort(case.model(), inputs)
    (found,) = run_ours(case.fused(), inputs)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
