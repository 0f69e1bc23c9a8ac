"""Fourier transforms against numpy's."""

from itertools import product

import numpy as np
import pytest
from single_node import run, sparsely

F = np.float32
RNG = np.random.default_rng(12)


def pairs(values: np.ndarray) -> np.ndarray:
    return np.stack([values.real, values.imag], -1)


@pytest.mark.parametrize(("length", "onesided"), sparsely(product([None, 8, 12, 15], [0, 1]), 3))
def test_real_signals(length: int | None, onesided: int) -> None:
    x = RNG.standard_normal((2, 12, 1)).astype(F)
    given = () if length is None else (np.array(length),)
    found = run("DFT", x, *given, opset=17, known=(1,)[: len(given)], axis=1, onesided=onesided)
    transform = np.fft.rfft if onesided else np.fft.fft
    np.testing.assert_allclose(found, pairs(transform(x[..., 0], length, 1)), atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_inverse_of_complex_signals_along_an_axis(axis: int) -> None:
    x = RNG.standard_normal((5, 12, 2)).astype(F)
    found = run("DFT", x, None, np.array(axis), opset=20, known=(2,), inverse=1)
    expected = np.fft.ifft(x[..., 0] + 1j * x[..., 1], axis=axis)
    np.testing.assert_allclose(found, pairs(expected), atol=1e-6)


@pytest.mark.parametrize("length", [8, 9])
def test_a_onesided_spectrum_comes_back_real(length: int) -> None:
    signal = RNG.standard_normal((2, length))
    spectrum = pairs(np.fft.rfft(signal)).astype(F)
    inputs = (spectrum, np.array(length), np.array(1))
    found = run("DFT", *inputs, opset=20, known=(1, 2), inverse=1, onesided=1)
    np.testing.assert_allclose(found[..., 0], signal, atol=1e-5)


def test_short_time_transform_is_one_transform_per_window() -> None:
    signal, window = RNG.standard_normal((1, 40, 1)).astype(F), np.hanning(16).astype(F)
    inputs = (signal, np.array(8), window, np.array(16))
    found = run("STFT", *inputs, opset=17, known=(1, 3))
    frames = np.stack([signal[0, n : n + 16, 0] * window for n in range(0, 25, 8)])
    np.testing.assert_allclose(found[0], pairs(np.fft.rfft(frames)), atol=1e-5)
