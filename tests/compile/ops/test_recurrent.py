"""RNN, GRU and LSTM against ONNX Runtime: directions, lengths, clip, activations, peepholes."""

from itertools import product

import numpy as np
import pytest
from single_node import assert_like_peer, feeds, node_model, ours, refusal, run, sparsely

F = np.float32
STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 2, 3
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def inputs_of(op: str, directions: int, lengths: bool = False) -> list[np.ndarray | None]:
    rng = np.random.default_rng(len(op))

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(F)

    gates = GATES[op] * HIDDEN
    values: list[np.ndarray | None] = [
        draw(STEPS, BATCH, INPUTS),
        draw(directions, gates, INPUTS),
        draw(directions, gates, HIDDEN),
        draw(directions, 2 * gates),
        np.array([4, 0, 2], np.int32) if lengths else None,
        draw(directions, BATCH, HIDDEN),
    ]
    if op == "LSTM":
        values += [draw(directions, BATCH, HIDDEN), draw(directions, 3 * HIDDEN)]
    return values


def outputs_of(op: str) -> int:
    return 3 if op == "LSTM" else 2


@pytest.mark.parametrize(
    ("op", "direction"), sparsely(product(GATES, ["forward", "reverse", "bidirectional"]), 5)
)
def test_every_direction_with_lengths(op: str, direction: str) -> None:
    values = inputs_of(op, 2 if direction == "bidirectional" else 1, lengths=True)
    assert_like_peer(
        op, *values, outputs=outputs_of(op), opset=14, hidden_size=HIDDEN, direction=direction
    )


@pytest.mark.parametrize("op", sparsely(GATES, 3))
def test_clip_bounds_the_input_of_activations(op: str) -> None:
    values = inputs_of(op, 1)
    assert_like_peer(op, *values, outputs=outputs_of(op), opset=14, hidden_size=HIDDEN, clip=0.3)


@pytest.mark.parametrize(
    ("op", "names", "alphas", "betas"),
    [
        ("RNN", ["Relu"], [], []),
        ("GRU", ["HardSigmoid", "LeakyRelu"], [0.3, 0.02], [0.4]),
        ("LSTM", ["HardSigmoid", "Relu", "Tanh"], [0.3], [0.4]),
    ],
)
def test_activations_take_their_own_parameters(
    op: str, names: list[str], alphas: list[float], betas: list[float]
) -> None:
    lists = {"activation_alpha": alphas, "activation_beta": betas}
    assert_like_peer(
        op,
        *inputs_of(op, 1),
        outputs=outputs_of(op),
        opset=14,
        hidden_size=HIDDEN,
        activations=names,
        **{name: values for name, values in lists.items() if values},
    )


def test_linear_before_reset_changes_where_the_gate_acts() -> None:
    values = inputs_of("GRU", 1)
    assert_like_peer("GRU", *values, outputs=2, opset=14, hidden_size=HIDDEN, linear_before_reset=1)


def test_coupled_input_and_forget_gates() -> None:
    values = inputs_of("LSTM", 1)[:4]
    model = node_model("LSTM", values, 3, opset=14, hidden_size=HIDDEN, input_forget=1)
    y, h, c = ours(model, feeds(model, values))
    x, w, r, b = (value.astype(float) for value in values if value is not None)
    hidden, cell = np.zeros((BATCH, HIDDEN)), np.zeros((BATCH, HIDDEN))
    for step in x:
        gates = step @ w[0].T + hidden @ r[0].T + b[0, : 4 * HIDDEN] + b[0, 4 * HIDDEN :]
        i, o, _, g = np.split(gates, 4, -1)
        i, o, g = 1 / (1 + np.exp(-i)), 1 / (1 + np.exp(-o)), np.tanh(g)
        cell = (1 - i) * cell + i * g
        hidden = o * np.tanh(cell)
    np.testing.assert_allclose(h[0], hidden, atol=1e-6)
    np.testing.assert_allclose(c[0], cell, atol=1e-6)
    np.testing.assert_array_equal(y[-1], h)


def test_batch_first_layout_is_the_same_transposed() -> None:
    x, w, r, b, _, h0 = inputs_of("GRU", 1)
    plain = run("GRU", x, w, r, b, None, h0, opset=14, hidden_size=HIDDEN)
    swapped = (x.transpose(1, 0, 2), w, r, b, None, h0.transpose(1, 0, 2))
    found = run("GRU", *swapped, opset=14, hidden_size=HIDDEN, layout=1)
    np.testing.assert_array_equal(found, plain.transpose(2, 0, 1, 3))


def test_an_unknown_activation_is_refused_by_name() -> None:
    values = inputs_of("RNN", 1)[:3]
    message = refusal("RNN", *values, opset=14, hidden_size=HIDDEN, activations=["Wobble"])
    assert "node it" in message
    assert "'Wobble'" in message
