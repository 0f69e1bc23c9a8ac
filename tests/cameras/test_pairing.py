from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.cameras.frame import EndOfStreamError, Frame
from modeld.cameras.pairing import SILENT_AFTER, FramePair, FramePairer
from modeld.counts import Count
from modeld.fakes.camera import FakeCamera, FakeStream, fake_frame, fake_frames
from modeld.fakes.clock import FakeClock

MS = 1_000_000
Script = list[Frame | None]


def pairs(narrow: Script | None, wide: Script | None) -> tuple[list[tuple[int, int]], Counter]:
    """(main id, extra id) of every pair until the script ends, and the faults reported."""
    faults: Counter[Count] = Counter()
    streams = [None if script is None else FakeStream(script) for script in (narrow, wide)]
    pairer = FramePairer(
        FakeCamera(*streams), FakeClock(), lambda count, message, about="": faults.update([count])
    )
    found = []
    while True:
        try:
            pair = pairer.receive()
        except EndOfStreamError:
            return found, faults
        if pair is not None:
            found.append((pair.main.frame_id, pair.extra.frame_id))


def shifted(frames: Script, by_ms: float) -> Script:
    return [
        None if f is None else fake_frame(f.frame_id, f.timestamp_sof + round(by_ms * MS))
        for f in frames
    ]


def test_equal_streams_pair_by_moment() -> None:
    found, faults = pairs(list(fake_frames(20)), list(fake_frames(20)))
    assert found == [(i, i) for i in range(20)]
    assert not faults


@pytest.mark.parametrize("one", ["narrow", "wide"])
def test_one_camera_is_paired_with_itself(one: str) -> None:
    frames: Script = list(fake_frames(3))
    found, faults = pairs(frames if one == "narrow" else None, frames if one == "wide" else None)
    assert found == [(0, 0), (1, 1), (2, 2)]
    assert not faults


def test_one_camera_gives_the_same_frame_twice() -> None:
    pairer = FramePairer(FakeCamera(FakeStream(fake_frames(1)), None), FakeClock(), lambda *_: None)
    pair = pairer.receive()
    assert isinstance(pair, FramePair)
    assert pair.main is pair.extra


def test_extra_that_starts_late_catches_up_from_its_queue() -> None:
    # The wide queue still holds old frames: they are skipped, not paired.
    found, faults = pairs(list(fake_frames(3, first=5)), list(fake_frames(8)))
    assert found == [(5, 5), (6, 6), (7, 7)]
    assert not faults


def test_main_that_is_behind_is_skipped_forward() -> None:
    found, _ = pairs(list(fake_frames(8)), list(fake_frames(8, first=4)))
    # The first pair is what there is; then main frames older than the extra one are passed over.
    assert found[0] == (0, 4)
    assert found[1:] == [(5, 5), (6, 6), (7, 7)]


@pytest.mark.parametrize(("lag_ms", "faults"), [(9.9, 0), (-9.9, 0), (10.1, 5), (-10.1, 5)])
def test_pairs_apart_by_more_than_10_ms_are_reported_and_used(lag_ms: float, faults: int) -> None:
    frames: Script = list(fake_frames(5))
    found, counted = pairs(frames, shifted(frames, -lag_ms))
    assert found == [(i, i) for i in range(5)]
    assert counted[Count.OUT_OF_SYNC] == faults


@pytest.mark.parametrize(("lag_ms", "first"), [(24.999, (0, 0)), (25.0, (0, 1))])
def test_extra_frames_25_ms_old_are_passed_over(lag_ms: float, first: tuple[int, int]) -> None:
    frames: Script = list(fake_frames(5))
    found, _ = pairs(frames, shifted(frames, -lag_ms))
    assert found[0] == first


def test_missing_extra_frame_leaves_its_main_unpaired_with_an_old_one() -> None:
    narrow: Script = list(fake_frames(6))
    wide: Script = [f for f in fake_frames(6) if f.frame_id != 2]
    found, faults = pairs(narrow, wide)
    # Main 2 takes wide 3 (50 ms later, reported); then main 3 is not ahead of it and is skipped.
    assert found == [(0, 0), (1, 1), (2, 3), (4, 4), (5, 5)]
    assert faults[Count.OUT_OF_SYNC] == 1


def test_missing_main_frame_skips_the_extra() -> None:
    narrow: Script = [f for f in fake_frames(6) if f.frame_id != 2]
    found, faults = pairs(narrow, list(fake_frames(6)))
    assert found == [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5)]
    assert not faults


def test_main_waits_for_its_extra_over_time_outs() -> None:
    narrow: Script = [*fake_frames(1), None, *fake_frames(2, first=1)]
    wide: Script = [None, None, *fake_frames(3)]
    found, faults = pairs(narrow, wide)
    assert found == [(0, 0), (1, 1), (2, 2)]
    assert faults == {Count.WIDE_MISSING: 2}


@pytest.mark.parametrize("stuck", ["narrow", "wide", "both"])
def test_timestamps_that_stand_still_pair_by_arrival(stuck: str) -> None:
    still: Script = [fake_frame(i, sof=7) for i in range(10)]
    moving: Script = list(fake_frames(10))
    found, faults = pairs(
        moving if stuck == "wide" else still, moving if stuck == "narrow" else list(still)
    )
    # A first frame cannot be known to be stuck, so one may be passed over; then all are answered.
    mains = [main for main, _ in found]
    assert mains[-1] - mains[1] + 1 == len(mains) - 1
    assert len(found) >= 8
    assert faults[Count.TIMESTAMPS_STALLED] >= 8


def test_a_wide_camera_that_falls_silent_is_named_and_waited_for() -> None:
    told: list[tuple[Count, str]] = []
    wide: Script = [*fake_frames(2), None, None, None, *list(fake_frames(4))[2:]]
    pairer = FramePairer(
        FakeCamera(FakeStream(list(fake_frames(4))), FakeStream(wide)),
        FakeClock(),
        lambda count, message, about="": told.append((count, message)),
    )
    found = [pairer.receive() for _ in range(7)]
    assert [pair and (pair.main.frame_id, pair.extra.frame_id) for pair in found] == [
        (0, 0), (1, 1), None, None, None, (2, 2), (3, 3),
    ]  # fmt: skip
    assert {count for count, _ in told} == {Count.WIDE_MISSING}
    assert len(told) == 3
    assert told[0][1].startswith("wide camera: no frame within 100 ms for narrow frame 2, which")


def test_a_wide_camera_silent_for_a_second_is_done_without_until_it_is_back() -> None:
    told: list[tuple[Count, str]] = []
    wide: Script = [*fake_frames(2), *[None] * SILENT_AFTER, None, None, *fake_frames(9, first=5)]
    pairer = FramePairer(
        FakeCamera(FakeStream(list(fake_frames(8))), FakeStream(wide)),
        FakeClock(),
        lambda count, message, about="": told.append((count, message)),
    )
    found = [pairer.receive() for _ in range(2 + SILENT_AFTER + 5)]
    numbers = [pair and (pair.main.frame_id, pair.extra.frame_id) for pair in found]
    assert numbers[:2] == [(0, 0), (1, 1)]
    assert numbers[2:-5] == [None] * SILENT_AFTER
    # Narrow frame 2 was a second old when it was given up.
    assert numbers[-5:] == [(3, 3), (4, 4), (5, 5), (6, 6), (7, 7)]
    alone = [pair.extra is pair.main for pair in found if pair is not None]
    assert alone == [False, False, True, True, False, False, False]
    assert {count for count, _ in told} == {Count.WIDE_MISSING}
    assert len(told) == SILENT_AFTER + 2
    assert "sees the narrow one alone until it is back" in told[-1][1]


def test_a_wide_camera_that_comes_back_late_for_its_pair_is_waited_for_again() -> None:
    narrow: Script = list(fake_frames(SILENT_AFTER + 6))
    silence: Script = [None] * (SILENT_AFTER + 1)
    # Its frame 2 comes when narrow frame 3 is looked at, and 3 only after a wait.
    wide: Script = [*fake_frames(1), *silence, *fake_frames(1, first=2), *fake_frames(5, first=3)]
    found, _ = pairs(narrow, wide)
    assert found[:4] == [(0, 0), (2, 2), (3, 3), (4, 4)]


def test_restarted_cameras_with_a_new_clock_are_followed() -> None:
    old: Script = [fake_frame(i, sof=10**12 + i * 50 * MS) for i in range(100, 110)]
    new: Script = [fake_frame(i, sof=10**9 + i * 50 * MS) for i in range(20)]
    found, faults = pairs(old + new, old[:-1] + new)
    mains = [main for main, _ in found]
    assert mains[:9] == list(range(100, 109))
    # At most two pairs are lost or mixed around the restart, then pairs are of one moment again.
    assert [pair for pair in found if pair[0] == pair[1]][-17:] == [(i, i) for i in range(3, 20)]
    assert faults[Count.FRAME_IDS_BACK] == 2


def test_recorded_end_is_passed_on() -> None:
    pairer = FramePairer(FakeCamera(FakeStream([]), None), FakeClock(), lambda *_: None)
    with pytest.raises(EndOfStreamError):
        pairer.receive()


jitter = st.lists(st.floats(-2, 2), min_size=30, max_size=30)


@given(jitter, jitter, st.sets(st.integers(0, 29)), st.sets(st.integers(0, 29)))
def test_synchronised_cameras_with_losses_never_pair_two_moments_unreported(
    narrow_jitter: list[float],
    wide_jitter: list[float],
    narrow_lost: set[int],
    wide_lost: set[int],
) -> None:
    def script(by: list[float], lost: set[int]) -> Script:
        frames = [shifted([fake_frame(i)], ms)[0] for i, ms in enumerate(by) if i not in lost]
        return list(frames)

    found, faults = pairs(script(narrow_jitter, narrow_lost), script(wide_jitter, wide_lost))
    mains = [main for main, _ in found]
    assert mains == sorted(set(mains))
    assert faults[Count.OUT_OF_SYNC] == sum(main != extra for main, extra in found)
    assert not faults[Count.TIMESTAMPS_STALLED]
