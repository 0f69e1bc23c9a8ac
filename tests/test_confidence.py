import numpy as np
import pytest

from modeld.confidence import Confidence, ConfidenceMonitor, HardBrakeMonitor
from modeld.constants import META_LAYOUTS

LAYOUT = META_LAYOUTS[55]


def meta(
    brake_5: float = 0.0, brake_3: float = 0.0, disengage: list[float] | None = None
) -> np.ndarray:
    values = np.zeros(55, np.float32)
    values[LAYOUT.hard_brake_5.start] = brake_5
    values[LAYOUT.hard_brake_3.start] = brake_3
    if disengage is not None:
        values[LAYOUT.brake_disengage] = disengage
    return values


def test_slices_of_the_55_wide_layout() -> None:
    indices = np.arange(55)
    assert indices[LAYOUT.gas_disengage].tolist() == [1, 7, 13, 19, 25]
    assert indices[LAYOUT.brake_disengage].tolist() == [2, 8, 14, 20, 26]
    assert indices[LAYOUT.steer_override].tolist() == [3, 9, 15, 21, 27]
    assert indices[LAYOUT.hard_brake_3].tolist() == [4, 10, 16, 22, 28]
    assert indices[LAYOUT.hard_brake_4].tolist() == [5, 11, 17, 23, 29]
    assert indices[LAYOUT.hard_brake_5].tolist() == [6, 12, 18, 24, 30]
    assert indices[LAYOUT.gas_press].tolist() == [31, 35, 39, 43, 47, 51]
    assert LAYOUT.brake_press is not None
    assert indices[LAYOUT.brake_press].tolist() == [32, 36, 40, 44, 48, 52]


@pytest.mark.parametrize("width", META_LAYOUTS)
def test_every_layout_has_disjoint_series_inside_its_width(width: int) -> None:
    layout = META_LAYOUTS[width]
    series = [getattr(layout, name) for name in layout.__slots__]
    covered = [i for part in series if part is not None for i in range(width)[part]]
    assert len(covered) == len(set(covered))
    assert all(len(range(width)[part]) in (5, 6) for part in series if part is not None)
    assert 0 not in covered


def test_hard_brake_needs_five_and_two_turns_above_their_thresholds() -> None:
    monitor = HardBrakeMonitor(LAYOUT)
    found = [monitor.update(meta(0.16, 0.71)) for _ in range(6)]
    assert found == [False] * 4 + [True] * 2


@pytest.mark.parametrize(
    ("fives", "threes", "predicted"),
    [
        ([0.06, 0.06, 0.16, 0.16, 0.16], [0, 0, 0, 0.71, 0.71], True),
        ([0.05, 0.06, 0.16, 0.16, 0.16], [0, 0, 0, 0.71, 0.71], False),
        ([0.06, 0.06, 0.15, 0.16, 0.16], [0, 0, 0, 0.71, 0.71], False),
        ([0.06, 0.06, 0.16, 0.16, 0.15], [0, 0, 0, 0.71, 0.71], False),
        ([0.06, 0.06, 0.16, 0.16, 0.16], [1, 1, 1, 0.70, 0.71], False),
        ([0.06, 0.06, 0.16, 0.16, 0.16], [1, 1, 1, 0.71, 0.70], False),
    ],
)
def test_hard_brake_thresholds_oldest_first(
    fives: list[float], threes: list[float], predicted: bool
) -> None:
    monitor = HardBrakeMonitor(LAYOUT)
    found = [monitor.update(meta(*pair)) for pair in zip(fives, threes, strict=True)]
    assert found == [False] * 4 + [predicted]


def test_confidence_is_green_before_anything_is_known() -> None:
    assert ConfidenceMonitor(LAYOUT).update(meta(), 1) is Confidence.GREEN


def test_confidence_takes_a_row_every_40_frames_only() -> None:
    monitor = ConfidenceMonitor(LAYOUT)
    risky = meta(disengage=[0.9] * 5)
    assert all(monitor.update(risky, frame) is Confidence.GREEN for frame in range(1, 40))
    assert monitor.update(risky, 40) is Confidence.RED


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (5 * 0.01164, Confidence.GREEN),
        (5 * 0.01166, Confidence.YELLOW),
        (5 * 0.06156, Confidence.YELLOW),
        (5 * 0.06158, Confidence.RED),
    ],
)
def test_confidence_thresholds(first: float, expected: Confidence) -> None:
    # Certain up to 2 s and nothing more after: only slice 0 of the newest row counts.
    assert ConfidenceMonitor(LAYOUT).update(meta(disengage=[first] * 5), 0) is expected


def test_confidence_reads_the_diagonal() -> None:
    # A disengagement predicted for the slice that begins in 4 s weighs 4 s later, not before.
    monitor = ConfidenceMonitor(LAYOUT)
    found = [monitor.update(meta(disengage=[0, 0, 0.5, 0.5, 0.5]), 0)]
    found += [monitor.update(meta(), 40 * i) for i in range(1, 6)]
    assert found == [
        Confidence.GREEN,
        Confidence.GREEN,
        Confidence.RED,
        Confidence.GREEN,
        Confidence.GREEN,
        Confidence.GREEN,
    ]


def test_slices_are_conditional_on_nothing_before() -> None:
    monitor = ConfidenceMonitor(LAYOUT)
    slices = monitor._slices(meta(disengage=[0.5, 0.75, 0.75, 1.0, 1.0]))
    np.testing.assert_allclose(slices, [0.5, 0.5, 0, 1, 0])


def test_causes_combine() -> None:
    values = meta(disengage=[0.5] * 5)
    values[LAYOUT.gas_disengage] = 0.5
    values[LAYOUT.steer_override] = 0.2
    np.testing.assert_allclose(
        ConfidenceMonitor(LAYOUT)._slices(values), [1 - 0.25 * 0.8, 0, 0, 0, 0], atol=1e-6
    )
