import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.drops import DropFilter


def settled() -> DropFilter:
    drops = DropFilter()
    for frame_id in range(20):
        assert drops.update(frame_id) == 0
    return drops


@pytest.mark.parametrize(("missed", "percent"), [(1, 0.495), (2, 0.985), (3, 1.47)])
def test_one_gap_reads_as_published(missed: int, percent: float) -> None:
    drops = settled()
    assert drops.update(20 + missed) == missed
    assert drops.percent == pytest.approx(percent, abs=5e-3)


def test_filter_constant() -> None:
    drops = settled()
    drops.update(21)
    alpha = 0.05 / 10.05
    assert drops.percent == pytest.approx(100 * alpha / (1 + alpha), rel=1e-12)
    drops.update(22)
    decayed = alpha * (1 - alpha)
    assert drops.percent == pytest.approx(100 * decayed / (1 + decayed), rel=1e-12)


def test_first_ten_turns_do_not_charge() -> None:
    drops = DropFilter()
    for turn in range(10):
        drops.update(5 * turn)
        assert drops.percent == 0
    assert drops.update(50) == 4
    assert drops.percent > 0


def test_a_gap_counts_ten_at_most_in_the_filter_but_is_told_whole() -> None:
    long, ten = settled(), settled()
    assert long.update(1_000_000) == 1_000_000 - 20
    ten.update(30)
    assert long.percent == ten.percent


def test_start_at_any_id_repeat_and_jump_back_are_no_drops() -> None:
    drops = DropFilter()
    assert drops.update(12345) == 0
    assert drops.update(12345) == 0
    assert drops.update(3) == 0
    assert drops.update(4) == 0
    assert drops.update(6) == 1


@given(st.lists(st.integers(0, 2**32 - 1), max_size=60))
def test_percent_stays_a_percentage(ids: list[int]) -> None:
    drops = DropFilter()
    for frame_id in ids:
        assert drops.update(frame_id) >= 0
        assert 0 <= drops.percent < 100
