"""Weights to begin with: they say what is true on average, and every layer is awake."""

import numpy as np
from tinygrad import Tensor

from compile.reference.heads import COEFFICIENTS, output_slices
from compile.reference.topology import Topology
from compile.reference.weights import seeded
from compile.training.driving.beginning import drives_seen, fitted, output_biases
from compile.training.driving.data import make_batch
from compile.training.driving.model import sequence_outputs, to_tensors, watched
from compile.training.driving.targets import CHANCES, places, target_spans
from compile.training.driving.world import drive_images

DEVICE = "CL"
# As small as our kernels take.
EVEN = Topology("even", 16, (16, 16, 16, 16), (0, 0, 0, 1), (2, 2), 16, 2, 16)
SEEN = 4


def test_layers_are_scaled_and_answers_do_not_depend_on_the_picture() -> None:
    weights = fitted(EVEN, 3, seen=SEEN, known=8)
    batch = drives_seen(3, SEEN)
    scenes, cameras, desires, traffic, action_t, *_ = (
        Tensor(array, device=DEVICE).realize() for array in batch.arrays().values()
    )
    tensors = to_tensors(weights, DEVICE)
    images = drive_images(scenes, cameras, 1).realize()
    features = watched(tensors, EVEN, images).realize()
    # Each unit over the drives; the deviation is exact but for what keeps dead units finite.
    np.testing.assert_allclose(features.numpy().mean((0, 1)), 0, atol=1e-4)
    np.testing.assert_allclose(features.numpy().std((0, 1)), 1, atol=0.02)
    outputs = sequence_outputs(tensors, EVEN, features, desires, traffic, action_t).numpy()
    assert np.ptp(outputs[..., : output_slices()["hidden_state"].start], axis=(0, 1)).max() == 0


def test_a_fourth_of_the_first_filters_see_only_what_moves() -> None:
    weights = fitted(EVEN, 3, seen=SEEN, known=8)
    for camera in ("narrow", "wide"):
        older, newer = np.split(weights[f"stem_{camera}.weight"], 2, axis=1)
        response = (older + newer).sum((1, 2, 3))  # to two even grey frames, the same twice
        np.testing.assert_allclose(response[:4], 0, atol=1e-5)
        assert np.abs(newer[:4, :4]).sum((1, 2, 3)).min() > 0.1
        assert np.abs(response[4:]).max() > 0.1


def test_biases_are_the_statistics_of_the_truth() -> None:
    batch = make_batch(7, 0, 64, 1)
    biases = output_biases(batch)
    assert biases.shape == (COEFFICIENTS,)
    weights = seeded(EVEN, 1)
    weights["trunk.coefficients.weight"] *= 0
    weights["trunk.coefficients.bias"] = biases
    zeros = Tensor.zeros(1, 1, 512, device=DEVICE).contiguous()
    few = [Tensor.zeros(1, 1, width, device=DEVICE).contiguous() for width in (8, 2, 2)]
    said = sequence_outputs(to_tensors(weights, DEVICE), EVEN, zeros, *few).numpy()[0, 0]

    numbers, span = batch.numbers[:, 0], target_spans()
    for head in ("pose", "action"):
        true = numbers[:, span[head]]
        mean, deviation = (said[place] for place in places(head))
        np.testing.assert_allclose(mean, true.mean(0), rtol=1e-3, atol=1e-4)
        # What never differs is not taken for exact.
        spread = np.sqrt(2) * np.abs(true - true.mean(0)).mean(0).clip(1e-4)
        np.testing.assert_allclose(np.exp(deviation), spread, rtol=0.01)
    # Curves are mixed from eight smooth ones, which hold the mean path to half a percent.
    plan = numbers[:, span["plan"]].reshape(-1, 33, 15)[:, :, 0].mean(0)
    said_plan = said[places("plan")[0]].reshape(33, 15)[:, 0]
    np.testing.assert_allclose(said_plan, plan, rtol=0.005, atol=0.02)
    start = sum(output_slices()[h].stop - output_slices()[h].start for h in list(CHANCES)[:-1])
    chance = 1 / (1 + np.exp(-said[output_slices()["lead_prob"]]))
    wanted = batch.chances[:, 0, start : start + 3].mean(0).clip(0.01, 0.99)
    np.testing.assert_allclose(chance, wanted, atol=1e-4)
