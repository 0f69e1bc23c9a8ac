"""Drawn digits and the perceptron that learns them."""

import numpy as np
import onnx
import onnxruntime
import pytest
from tinygrad import Tensor

from compile.training.digits import Batches, draw_digits
from compile.training.perceptron import Perceptron, perceptron_onnx
from modeld.errors import ModeldError


def test_digits_are_drawn_from_their_seed() -> None:
    digits = draw_digits(30, seed=3)
    again, other = draw_digits(30, seed=3), draw_digits(30, seed=4)
    assert digits.images.shape == (30, 784) and digits.images.dtype == np.float32
    assert digits.images.min() >= 0 and digits.images.max() <= 1
    assert np.bincount(digits.labels).tolist() == [3] * 10
    assert digits.images.tobytes() == again.images.tobytes()
    assert digits.images.tobytes() != other.images.tobytes()


def test_digits_look_like_their_kind() -> None:
    """The nearest mean picture tells most of them, so the labels belong to the pictures."""
    known, new = draw_digits(300, seed=1), draw_digits(100, seed=2)
    means = np.stack([known.images[known.labels == digit].mean(0) for digit in range(10)])
    nearest = ((new.images[:, None] - means) ** 2).sum(2).argmin(1)
    assert (nearest == new.labels).mean() > 0.7


def test_a_batch_is_a_function_of_its_number() -> None:
    digits = draw_digits(10, seed=1)
    batches = Batches(digits, 3, seed=5)
    assert batches.per_epoch == 3
    seen = [batches.batch(n) for n in range(6)]
    from_four = batches.starting_at(4)
    assert next(from_four).images.tobytes() == seen[4].images.tobytes()
    assert next(from_four).images.tobytes() == seen[5].images.tobytes()
    # Each epoch has every digit once, but for the rest that fills no batch, in another order.
    for epoch in (seen[:3], seen[3:]):
        rows = {image.tobytes() for batch in epoch for image in batch.images}
        assert len(rows) == 9
    assert seen[0].images.tobytes() != seen[3].images.tobytes()


def test_making_batches_draws_nothing_from_the_training() -> None:
    Tensor.manual_seed(1)
    expected = Tensor.rand(4).numpy()
    Tensor.manual_seed(1)
    Batches(draw_digits(10, seed=1), 3, seed=5).batch(0)
    assert Tensor.rand(4).numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_onnx_graph_computes_the_same(dropout: float) -> None:
    network = Perceptron((784, 6, 5, 10), dropout)
    parameters = {name: tensor.numpy() for name, tensor in network.parameters.items()}
    model = perceptron_onnx(parameters, "digits")
    onnx.checker.check_model(model, full_check=True)
    image = draw_digits(1, seed=1).images
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (scores,) = session.run(["scores"], {"image": image})
    np.testing.assert_allclose(network(Tensor(image)).numpy(), scores, rtol=1e-5, atol=1e-6)


def test_wrong_numbers_are_refused() -> None:
    digits = draw_digits(10, seed=1)
    for make, message in (
        (lambda: draw_digits(0, seed=1), "0 digits are no data"),
        (lambda: Batches(digits, 11, seed=1), "a batch of 11 from 10 digits; use 1 to 10"),
        (lambda: Batches(digits, 0, seed=1), "a batch of 0 from 10 digits"),
        (lambda: Perceptron((784,)), r"layers of sizes \[784\] are no network"),
        (lambda: Perceptron((784, 0, 10)), r"layers of sizes \[784, 0, 10\] are no network"),
        (lambda: Perceptron((784, 10), dropout=1.0), "a dropout of 1.0 is no share"),
    ):
        with pytest.raises(ModeldError, match=message):
            make()
