"""Fourier transforms, as products with matrices of sines and cosines made in float64."""

import numpy as np
from tinygrad import Tensor

from compile.ops.registry import Array, Context, Op, Value


def _matrices(length: int, rows: int, columns: int, inverse: bool) -> tuple[Array, Array]:
    """cos and sin of the transform: `rows` input samples to `columns` frequencies."""
    angle = 2 * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % length) / length
    scale = 1 / length if inverse else 1.0
    return np.cos(angle) * scale, np.sin(angle) * (scale if inverse else -scale)


def _transform(context: Context, x: Tensor, length: int, onesided: bool, inverse: bool) -> Tensor:
    """x (…, n, 1 or 2) along its last but one axis, cut or padded with zeros to `length`."""
    real, imaginary = x[..., 0], x[..., 1] if x.shape[-1] == 2 else None
    if inverse and onesided:
        return _real_inverse(context, real, imaginary, length)
    rows = min(real.shape[-1], length)
    columns = length // 2 + 1 if onesided else length
    cos, sin = _matrices(length, rows, columns, inverse)
    c, s = (context.tensor(m.astype(np.float32)).cast(x.dtype) for m in (cos, sin))
    real = real[..., :rows]
    y_real, y_imaginary = real @ c, real @ s
    if imaginary is not None:
        imaginary = imaginary[..., :rows]
        y_real, y_imaginary = y_real - imaginary @ s, y_imaginary + imaginary @ c
    return y_real.stack(y_imaginary, dim=-1)


def _real_inverse(context: Context, real: Tensor, imaginary: Tensor | None, length: int) -> Tensor:
    """The real signal of a one-sided spectrum: all frequencies but the ends count twice."""
    rows = min(real.shape[-1], length // 2 + 1)
    cos, sin = _matrices(length, rows, length, inverse=True)
    weight = np.full((rows, 1), 2.0)
    weight[0] = 1.0
    if length % 2 == 0 and rows == length // 2 + 1:
        weight[-1] = 1.0
    c, s = (context.tensor((m * weight).astype(np.float32)).cast(real.dtype) for m in (cos, sin))
    y = real[..., :rows] @ c
    if imaginary is not None:
        y = y - imaginary[..., :rows] @ s
    return y.unsqueeze(-1)


def dft(
    x: Tensor,
    dft_length: Array | None = None,
    axis: Array | None = None,
    inverse: int = 0,
    onesided: int = 0,
    *,
    context: Context,
) -> Tensor:
    """Discrete Fourier transform of x (…, 1 real or 2 complex) along `axis`."""
    along = -2 if axis is None else int(axis.reshape(-1)[0])
    along = along % x.ndim
    if dft_length is not None:
        length = int(dft_length.reshape(-1)[0])
    else:
        size = x.shape[along]
        length = 2 * (size - 1) if inverse and onesided else size
    order = [d for d in range(x.ndim - 1) if d != along] + [along, x.ndim - 1]
    y = _transform(context, x.permute(order), length, bool(onesided), bool(inverse))
    return y.permute([order.index(d) for d in range(x.ndim)])


def dft_17(
    x: Tensor,
    dft_length: Array | None = None,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
    *,
    context: Context,
) -> Tensor:
    """DFT with its axis as an attribute."""
    return dft(x, dft_length, np.array(axis), inverse, onesided, context=context)


def stft(
    signal: Value,
    frame_step: Array,
    window: Value = None,
    frame_length: Array | None = None,
    onesided: int = 1,
    *,
    context: Context,
) -> Tensor:
    """Transforms of overlapping windows of signal (B, samples, 1 or 2): (B, frames, bins, 2)."""
    x = context.tensor(signal)
    x = x.unsqueeze(-1) if x.ndim == 2 else x
    weights = None if window is None else context.tensor(window)
    step = int(frame_step.reshape(-1)[0])
    if frame_length is not None:
        size = int(frame_length.reshape(-1)[0])
    else:
        size = x.shape[1] if weights is None else weights.shape[0]
    count = 1 + (x.shape[1] - size) // step
    frames = [x[:, n * step : n * step + size] for n in range(count)]
    cut = frames[0].stack(*frames[1:], dim=1)
    if weights is not None:
        cut = cut * weights.reshape(1, 1, size, 1)
    return _transform(context, cut, size, bool(onesided), inverse=False)


OPS = (
    Op("DFT", dft, since=20, constants=(1, 2), context=True, foldable=False),
    Op("DFT", dft_17, since=17, constants=(1,), context=True, foldable=False),
    Op(
        "STFT",
        stft,
        since=17,
        constants=(1, 3),
        any_value=True,
        context=True,
        foldable=False,
    ),
)
