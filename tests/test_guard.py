import numpy as np
import pytest

from modeld.fakes.camera import fake_frame
from modeld.guard import FROZEN_TURNS, Answer, OutputGuard

VECTOR = np.arange(100, dtype=np.float32)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 57, 99])
def test_one_non_finite_value_is_enough(bad: float, place: int) -> None:
    guard = OutputGuard()
    vector = VECTOR.copy()
    vector[place] = bad
    assert guard.judge(VECTOR, fake_frame(0)) is Answer.SOUND
    assert guard.judge(vector, fake_frame(1)) is Answer.NON_FINITE
    assert guard.judge(VECTOR, fake_frame(2)) is Answer.SOUND


def test_repeated_answers_to_changing_pictures_are_frozen() -> None:
    guard = OutputGuard()
    answers = [guard.judge(VECTOR, fake_frame(i)) for i in range(FROZEN_TURNS + 3)]
    assert answers == [Answer.SOUND] * FROZEN_TURNS + [Answer.FROZEN] * 3
    changed = VECTOR.copy()
    changed[99] += 1
    assert guard.judge(changed, fake_frame(50)) is Answer.SOUND


def test_a_still_picture_may_have_a_still_answer() -> None:
    guard = OutputGuard()
    for i in range(3 * FROZEN_TURNS):
        assert guard.judge(VECTOR, fake_frame(i, shade=7)) is Answer.SOUND


def test_the_vector_may_be_reused_by_its_owner() -> None:
    guard = OutputGuard()
    vector = VECTOR.copy()
    for i in range(2 * FROZEN_TURNS):
        vector[0] = i
        assert guard.judge(vector, fake_frame(i)) is Answer.SOUND
