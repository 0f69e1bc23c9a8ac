"""Recurrent layers against numpy: gates, directions, sequences, all steps at once or one by one."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_bench import UNTOUCHED, Bench

from compile.kernels import recurrent
from compile.kernels.recurrent import Recurrence, pack_inputs, pack_state
from compile.kernels.spec import decode, encode

STEPS = 3


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def layer(
    spec: Recurrence, x: np.ndarray, r: np.ndarray, bias: np.ndarray, states: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Y (T, D, B, H) and the last states (states, D, B, H), of inputs' products (T, D, B, G H)."""
    y = np.zeros((spec.steps, *spec.state_shape))
    last = states.astype(np.float64).copy()
    for d, back in enumerate(spec.reverse):
        for t in range(spec.steps)[:: -1 if back else 1]:
            h, given = last[0, d], np.split(x[t, d].astype(np.float64), spec.gates, -1)
            hidden = [h @ part.astype(np.float64).T for part in np.split(r[d], spec.gates)]
            if spec.kind == "LSTM":
                i, o, f = (sigmoid(given[n] + hidden[n]) for n in range(3))
                last[1, d] = f * last[1, d] + i * np.tanh(given[3] + hidden[3])
                last[0, d] = o * np.tanh(last[1, d])
            else:
                z, reset = (sigmoid(given[n] + hidden[n]) for n in range(2))
                if spec.linear_before_reset:
                    product = reset * (hidden[2] + bias[d])
                else:
                    product = (reset * h) @ np.split(r[d], 3)[2].astype(np.float64).T
                last[0, d] = (1 - z) * np.tanh(given[2] + product) + z * h
            y[t, d] = last[0, d]
    return y, last


GRU = Recurrence("GRU", STEPS, 1, 21, (False,), linear_before_reset=True)
LSTM = Recurrence("LSTM", STEPS, 1, 21, (False,))
LAYERS = {
    "GRU": GRU,
    "GRU of an even number of units, in reverse": replace(GRU, hidden=32, reverse=(True,)),
    "GRU of eight sequences in both directions": replace(GRU, batch=8, reverse=(False, True)),
    "GRU that resets the state": replace(GRU, linear_before_reset=False),
    "GRU that resets three states, in both directions": replace(
        GRU, batch=3, reverse=(False, True), linear_before_reset=False
    ),
    "LSTM": LSTM,
    "LSTM of five sequences in both directions": replace(LSTM, batch=5, reverse=(False, True)),
    "LSTM of six sequences": replace(LSTM, batch=6, hidden=16),
}


def operands(spec: Recurrence) -> tuple[np.ndarray, ...]:
    """Inputs' products, the state's weights, the hidden gate's bias and the first states."""
    rng, columns = np.random.default_rng(spec.hidden), spec.gates * spec.hidden
    directions, batch, hidden = spec.state_shape
    return (
        rng.standard_normal((spec.steps, directions, batch, columns), np.float32) * 3,
        rng.standard_normal((directions, columns, hidden), np.float32) / np.float32(hidden**0.5),
        rng.standard_normal((directions, hidden), np.float32),
        rng.uniform(-1, 1, (spec.states, *spec.state_shape)).astype(np.float32),
    )


def run(
    bench: Bench, spec: Recurrence, x: np.ndarray, r: np.ndarray, bias: np.ndarray, s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel makes of it, in one launch or in one for each step."""
    packed = [
        np.concatenate([pack_inputs(row[:, :, None], spec.gates)[:, 0] for row in step])
        for step in x.transpose(0, 2, 1, 3)
    ]
    weights = [np.concatenate(packed), pack_state(r, spec)]
    if spec.linear_before_reset:
        weights.append(pack_inputs(bias, 1))
    kernel, shapes = recurrent.render(spec), [spec.state_shape] * spec.states
    if spec.all_steps:
        # One more step behind the last, which must stay as it was.
        whole = (spec.steps + 1, *spec.state_shape)
        *states, y = bench.run(kernel, [*shapes, whole], [*weights, *s])
        assert (y[-1] == UNTOUCHED).all()
        return y[:-1], np.stack(states)
    y = np.zeros((spec.steps, *spec.state_shape), np.float32)
    for step in range(spec.steps):
        number = np.array([step], np.int32).view(np.float32)
        s = np.stack(bench.run(kernel, shapes, [*weights, *s, number]))
        for d, back in enumerate(spec.reverse):
            y[spec.steps - 1 - step if back else step, d] = s[0, d]
    return y, s


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("launches", ["one for all steps", "one a step", "one step"])
def test_layer(name: str, launches: str, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = LAYERS[name]
    if launches == "one step":
        spec = replace(spec, steps=1)
    elif launches == "one a step":
        monkeypatch.setattr(recurrent, "_MAX_WHOLE_BYTES", 0)
    resets = spec.kind == "GRU" and not spec.linear_before_reset
    assert spec.whole == (resets or launches == "one for all steps")
    assert spec.all_steps == (resets or launches != "one a step")
    assert decode(Recurrence, encode(spec)) == spec
    given = operands(spec)
    found, expected = run(bench, spec, *given), layer(spec, *given)
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)


def test_large_and_small_values_are_exact(bench: Bench) -> None:
    # Gates that are open or shut: the hidden gate's tanh is what comes out.
    spec = replace(GRU, steps=1, hidden=16)
    x = np.zeros((1, 1, 1, 48), np.float32)
    x[..., :16] = -100
    x[..., 32:] = [0, 1e-30, -1e-6, 1e-3, -0.1, 0.6, 0.625, -0.63, 1, -2, 4, -9, 20, 60, -1e4, 1e38]
    r, bias, start = np.zeros((1, 48, 16)), np.zeros((1, 16)), np.zeros((1, 1, 1, 16))
    y, _ = run(bench, spec, x, r, bias, start)
    expected = np.tanh(x[0, 0, 0, 32:].astype(np.float64))
    np.testing.assert_allclose(y[0, 0, 0], expected, rtol=3e-7, atol=1e-36)


@pytest.mark.parametrize("name", ["GRU", "GRU that resets the state", "LSTM"])
def test_nan_stays_from_its_step_on(name: str, bench: Bench) -> None:
    x, r, bias, start = operands(LAYERS[name])
    x[1, 0, 0, 0] = np.nan
    y, _ = run(bench, LAYERS[name], x, r, bias, start)
    assert np.isfinite(y[0]).all()
    assert np.isnan(y[1, 0, 0]).tolist() == [True] + [False] * 20
    assert np.isnan(y[2]).all()
