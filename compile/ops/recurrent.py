"""RNN, GRU and LSTM, unrolled over the steps of the sequence.

Formulas: the ONNX pages of the three operators. Shapes: T steps, B batch, I inputs, H hidden, D
directions; weights W (D, gates H, I), R (D, gates H, H), biases (D, 2 gates H).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tinygrad import Tensor, dtypes

from compile.ops.gather import reverse_sequence
from compile.ops.indexing import stack, take
from compile.ops.registry import Context, Op

Activation = Callable[[Tensor], Tensor]

# name: (function of x, alpha, beta; default alpha; default beta). Source: the LSTM page.
_ACTIVATIONS: dict[str, tuple[Callable[[Tensor, float, float], Tensor], float, float]] = {
    "relu": (lambda x, a, b: x.relu(), 0.0, 0.0),
    "tanh": (lambda x, a, b: x.tanh(), 0.0, 0.0),
    "sigmoid": (lambda x, a, b: x.sigmoid(), 0.0, 0.0),
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: (x >= 0).where(x, a * x), 0.01, 0.0),
    "thresholdedrelu": (lambda x, a, b: (x >= a).where(x, 0), 1.0, 0.0),
    "scaledtanh": (lambda x, a, b: a * (b * x).tanh(), 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: (a * x + b).clip(0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: (x >= 0).where(x, a * (x.exp() - 1)), 1.0, 0.0),
    "softsign": (lambda x, a, b: x / (1 + x.abs()), 0.0, 0.0),
    "softplus": (lambda x, a, b: x.softplus(), 0.0, 0.0),
}
# Activations that read alpha, and those that read beta, from the node's lists, in order.
_TAKES_ALPHA = frozenset(
    {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
)
_TAKES_BETA = frozenset({"affine", "scaledtanh", "hardsigmoid"})


def _activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    key = name.lower()
    if key not in _ACTIVATIONS:
        raise ValueError(f"activation {name!r} is none of {', '.join(_ACTIVATIONS)}")
    function, alpha, beta = _ACTIVATIONS[key]
    alpha = alphas.pop(0) if key in _TAKES_ALPHA and alphas else alpha
    beta = betas.pop(0) if key in _TAKES_BETA and betas else beta
    return lambda x: function(x, alpha, beta)


@dataclass(frozen=True)
class _Direction:
    """One direction's weights (transposed for x @ W) and functions.

    Input and recurrent bias are apart because GRU needs the latter inside its reset gate.
    """

    w: Tensor
    r: Tensor
    w_bias: Tensor | float
    r_bias: Tensor | float
    peepholes: tuple[Tensor, ...]
    functions: tuple[Activation, ...]
    clip: float
    linear_before_reset: bool
    input_forget: bool

    def clipped(self, x: Tensor) -> Tensor:
        return x.clip(-self.clip, self.clip) if self.clip else x


State = tuple[Tensor, ...]
Cell = Callable[[_Direction, Tensor, State], State]


def _rnn_cell(d: _Direction, x: Tensor, state: State) -> State:
    """x is already multiplied by W and has both biases where they can be added at once."""
    return (d.functions[0](d.clipped(x + d.r_bias + state[0] @ d.r)),)


def _gru_cell(d: _Direction, x: Tensor, state: State) -> State:
    h = state[0]
    size = h.shape[-1]
    z_r = d.r[:, : 2 * size]
    bias = d.r_bias
    gate_bias, hidden_bias = (
        (bias, bias)
        if isinstance(bias, float)
        else (
            bias[: 2 * size],
            bias[2 * size :],
        )
    )
    gates = d.functions[0](d.clipped(x[:, : 2 * size] + h @ z_r + gate_bias))
    update, reset = gates[:, :size], gates[:, size:]
    if d.linear_before_reset:
        hidden = reset * (h @ d.r[:, 2 * size :] + hidden_bias)
    else:
        hidden = (reset * h) @ d.r[:, 2 * size :] + hidden_bias
    candidate = d.functions[1](d.clipped(x[:, 2 * size :] + hidden))
    return ((1 - update) * candidate + update * h,)


def _lstm_cell(d: _Direction, x: Tensor, state: State) -> State:
    h, c = state
    size = h.shape[-1]
    gates = x + h @ d.r + d.r_bias
    i, o, f, g = (gates[:, n * size : (n + 1) * size] for n in range(4))
    if d.peepholes:
        i, f = i + d.peepholes[0] * c, f + d.peepholes[2] * c
    squash, input_function, output_function = d.functions
    i = squash(d.clipped(i))
    f = 1 - i if d.input_forget else squash(d.clipped(f))
    c = f * c + i * input_function(d.clipped(g))
    if d.peepholes:
        o = o + d.peepholes[1] * c
    return squash(d.clipped(o)) * output_function(c), c


def _run(
    cell: Cell,
    d: _Direction,
    x: Tensor,
    state: State,
    lengths: Tensor | None,
    reverse: bool,
    context: Context,
) -> tuple[Tensor, State]:
    """All steps of one direction: outputs (T, B, H) and the last state.

    The number of a step lies in memory, so that all steps are launches of the same kernels.
    """
    if reverse:
        x = x.flip(0) if lengths is None else reverse_sequence(x, lengths)
    projected = (x @ d.w + d.w_bias).contiguous()
    outputs = []
    for step in range(x.shape[0]):
        number = context.stored(np.array([step], np.int32))
        new = cell(d, take(projected, 0, number).reshape(projected.shape[1:]), state)
        y = new[0]
        if lengths is not None:
            running = (lengths > number).reshape(-1, 1)
            new = tuple(running.where(n, old) for n, old in zip(new, state, strict=True))
            y = running.where(y, 0)
        # Each step in memory: otherwise every later kernel would compute all earlier ones again.
        state = tuple(part.contiguous() for part in new)
        outputs.append(state[0] if lengths is None else y)
    result = stack(outputs, 0)
    if lengths is not None:
        # The page does not say what an empty sequence ends in; ONNX Runtime's answer is zero.
        any_step = (lengths > 0).reshape(-1, 1)
        state = tuple(any_step.where(part, 0) for part in state)
    if reverse:
        result = result.flip(0) if lengths is None else reverse_sequence(result, lengths)
    return result, state


@dataclass(frozen=True)
class _Kind:
    """What the three operators differ in."""

    cell: Cell
    gates: int
    states: int
    functions: tuple[str, ...]


def _directions(
    kind: _Kind,
    count: int,
    weights: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
    options: dict[str, object],
    names: tuple[Sequence[str], Sequence[float], Sequence[float]],
) -> list[_Direction]:
    w, r, b, p = weights
    size = r.shape[-1]
    alphas, betas = list(names[1]), list(names[2])
    chosen = tuple(names[0]) or kind.functions * count
    per_direction = len(kind.functions)
    result = []
    for n in range(count):
        mine = chosen[n * per_direction : (n + 1) * per_direction]
        functions = tuple(_activation(name, alphas, betas) for name in mine)
        result.append(
            _Direction(
                w[n].transpose(0, 1),
                r[n].transpose(0, 1),
                0.0 if b is None else b[n, : kind.gates * size],
                0.0 if b is None else b[n, kind.gates * size :],
                () if p is None else tuple(p[n, k * size : (k + 1) * size] for k in range(3)),
                functions,
                **options,  # type: ignore[arg-type]
            )
        )
    return result


def _recurrent(kind: _Kind) -> Callable[..., tuple[Tensor, ...]]:
    def run(
        x: Tensor,
        w: Tensor,
        r: Tensor,
        b: Tensor | None = None,
        sequence_lens: Tensor | None = None,
        initial_h: Tensor | None = None,
        initial_c: Tensor | None = None,
        p: Tensor | None = None,
        activation_alpha: Sequence[float] = (),
        activation_beta: Sequence[float] = (),
        activations: Sequence[str] = (),
        clip: float = 0.0,
        direction: str = "forward",
        hidden_size: int = 0,
        input_forget: int = 0,
        layout: int = 0,
        linear_before_reset: int = 0,
        *,
        context: Context,
    ) -> tuple[Tensor, ...]:
        reversals = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        if direction not in reversals:
            raise ValueError(f"direction {direction!r} is none of {', '.join(reversals)}")
        steps = x.permute(1, 0, 2) if layout else x
        lengths = None if sequence_lens is None else sequence_lens.cast(dtypes.int32)
        options: dict[str, object] = {
            "clip": clip,
            "linear_before_reset": bool(linear_before_reset),
            "input_forget": bool(input_forget),
        }
        names = (activations, activation_alpha, activation_beta)
        flips = reversals[direction]
        parts = _directions(kind, len(flips), (w, r, b, p), options, names)
        blank = Tensor.zeros(steps.shape[1], r.shape[-1], dtype=x.dtype, buffer=False)
        starts = [
            None if value is None else (value.permute(1, 0, 2) if layout else value)
            for value in (initial_h, initial_c)
        ]
        outputs, finals = [], []
        for n, (part, reverse) in enumerate(zip(parts, flips, strict=True)):
            state = tuple(blank if start is None else start[n] for start in starts[: kind.states])
            y, final = _run(kind.cell, part, steps, state, lengths, reverse, context)
            outputs.append(y)
            finals.append(final)
        # (T, D, B, H) and (D, B, H), or batch first.
        y = outputs[0].stack(*outputs[1:], dim=1)
        last = [finals[0][k].stack(*(f[k] for f in finals[1:])) for k in range(kind.states)]
        if layout:
            return y.permute(2, 0, 1, 3), *(value.permute(1, 0, 2) for value in last)
        return y, *last

    return run


_RNN = _Kind(_rnn_cell, 1, 1, ("Tanh",))
_GRU = _Kind(_gru_cell, 3, 1, ("Sigmoid", "Tanh"))
_LSTM = _Kind(_lstm_cell, 4, 2, ("Sigmoid", "Tanh", "Tanh"))

# The evaluator of the onnx package ignores lengths, clip and activations: never folded.
OPS = (
    Op("RNN", _recurrent(_RNN), since=7, context=True, foldable=False),
    Op("GRU", _recurrent(_GRU), since=3, context=True, foldable=False),
    Op("LSTM", _recurrent(_LSTM), context=True, foldable=False),
)
