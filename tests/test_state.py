import dataclasses

import numpy as np
import pytest

from modeld.constants import Desire
from modeld.errors import ModeldError
from modeld.fakes.executor import driving_contract
from modeld.manifest import FrozenInput, StatePair, Tensor
from modeld.state import ModelInputs, Situation


def with_inputs(*tensors: Tensor):
    contract = driving_contract()
    return dataclasses.replace(contract, inputs=contract.inputs + tensors)


def pulses(desires: list[Desire]) -> list[list[int]]:
    inputs = ModelInputs(driving_contract())
    return [
        np.flatnonzero(inputs.fill(Situation(desire=desire))["desire"]).tolist()
        for desire in desires
    ]


def test_a_held_desire_is_one_pulse() -> None:
    left, right, none = Desire.LANE_CHANGE_LEFT, Desire.LANE_CHANGE_RIGHT, Desire.NONE
    assert pulses([none, left, left, left, none, left]) == [[], [3], [], [], [], [3]]
    assert pulses([left, right, left]) == [[3], [4], [3]]
    assert pulses([none, none]) == [[], []]


def test_reset_lets_a_held_desire_pulse_again() -> None:
    inputs = ModelInputs(driving_contract())
    situation = Situation(desire=Desire.KEEP_LEFT)
    inputs.fill(situation)
    inputs.reset()
    np.testing.assert_array_equal(inputs.fill(situation)["desire"], [[0, 0, 0, 0, 0, 1, 0, 0]])


def test_values_and_shapes_of_every_generation() -> None:
    inputs = ModelInputs(
        with_inputs(
            Tensor("lateral_control_params", (1, 2), "float16"),
            Tensor("nav_features", (1, 256), "float32"),
            Tensor("nav_instructions", (1, 150), "float32"),
        )
    )
    arrays = inputs.fill(Situation(Desire.NONE, True, 12.5, 0.25, 0.325, 0.525))
    assert "new_img" not in arrays
    np.testing.assert_array_equal(arrays["traffic_convention"], [[0, 1]])
    np.testing.assert_array_equal(arrays["action_t"], np.float32([[0.325, 0.525]]))
    np.testing.assert_array_equal(arrays["lateral_control_params"], np.float16([[12.5, 0.25]]))
    assert arrays["lateral_control_params"].dtype == np.float16
    assert not arrays["nav_features"].any()
    assert arrays["nav_instructions"].shape == (1, 150)
    left = inputs.fill(Situation(right_hand_drive=False))
    np.testing.assert_array_equal(left["traffic_convention"], [[1, 0]])


def test_flat_desire_and_given_inputs() -> None:
    contract = driving_contract()
    contract = dataclasses.replace(
        contract,
        inputs=(
            Tensor("new_img", (2, 6, 128, 256), "uint8"),
            Tensor("desire", (8,), "float32"),
            Tensor("feat_q", (96, 1, 512), "float32"),
            Tensor("sizes", (3,), "int64"),
        ),
        state=(StatePair("feat_q", "next_feat_q"),),
        frozen=(FrozenInput("sizes", (3,), "int64", ""),),
    )
    arrays = ModelInputs(contract).fill(Situation(desire=Desire.TURN_LEFT))
    assert list(arrays) == ["desire"]
    np.testing.assert_array_equal(arrays["desire"], np.eye(8)[1])


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (Tensor("radar", (1, 4), "float32"), "has no value for input radar; it knows desire, act"),
        (Tensor("lateral_control_params", (1, 3), "float32"), "has 3 elements, the daemon gives 2"),
    ],
)
def test_unknown_and_misshapen_inputs_are_named(tensor: Tensor, message: str) -> None:
    with pytest.raises(ModeldError, match=message):
        ModelInputs(with_inputs(tensor))
