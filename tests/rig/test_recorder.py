"""What a listener makes of a daemon's messages."""

from typing import Any

from modeld.fakes.clock import FakeClock
from modeld.fakes.transport import MemoryTransport
from modeld.health import TurnTimes
from modeld.messaging import PubMaster
from modeld.rig.latency import Answer
from modeld.rig.listener import Listener
from modeld.rig.recorder import END_TO_END, STACKED, WARMUP_FRAMES, Recorder, stage_times

MS = 1_000_000
PERIOD = 50 * MS


def times(frame_id: int, eof: int) -> TurnTimes:
    """1 ms until received, 2 to be paired, 20 in the executor (3+4+5+1 on the device), 6, 7."""
    received = eof + 1 * MS
    synced = received + 2 * MS
    executed = synced + 20 * MS
    parsed = executed + 6 * MS
    published = parsed + 7 * MS
    stages = (3 * MS, 4 * MS, 5 * MS, 1 * MS)
    return TurnTimes(frame_id, eof, received, synced, executed, parsed, published, *stages)


def test_stages_add_up_to_the_whole_way() -> None:
    answer = Answer(3, 0, 40 * MS)
    stages = {name: value // MS for name, value in stage_times(times(3, 0), answer).items()}
    assert stages == {
        "wait": 1, "sync": 2, "upload": 3, "warp": 4, "model": 5, "read": 1, "host": 7,
        "parse": 6, "publish": 7, "turn": 33, "overhead": 24, "deliver": 11,
    }  # fmt: skip
    assert sum(stages[name] for name in STACKED) == 40


class Daemon:
    """Publishes as the daemon does, on a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.transport = MemoryTransport()
        self.recorder = Recorder(PERIOD, PERIOD)
        self.seen: list[int] = []
        self.listener = Listener(
            self.transport,
            self.clock,
            self.recorder,
            lambda event: self.seen.append(event.modelV2.frameId),
        )
        self.pub = PubMaster(("modelV2", "modeldHealth"), self.transport, self.clock)
        self.turns: list[TurnTimes] = []

    def eof(self, frame_id: int) -> int:
        return 2_000 * MS + frame_id * PERIOD

    def answer(self, frame_id: int, latency_ms: int, valid: bool = True) -> None:
        self.clock.set(self.eof(frame_id) + latency_ms * MS)
        event = self.pub.new_event("modelV2", valid=valid)
        event.modelV2.frameId, event.modelV2.timestampEof = frame_id, self.eof(frame_id)
        self.pub.send("modelV2", event)
        self.turns.append(times(frame_id, self.eof(frame_id)))
        self.listener.listen(0.0)

    def beat(self) -> None:
        event = self.pub.new_event("modeldHealth", valid=True)
        health: Any = event.modeldHealth
        health.artifactId = "sha256:abc"
        for builder, turn in zip(health.init("turns", len(self.turns)), self.turns, strict=True):
            builder.frameId, builder.timestampEof = turn.frame_id, turn.timestamp_eof
            for name in ("received", "synced", "executed", "parsed", "published"):
                setattr(builder, name, getattr(turn, name))
            for name in ("upload", "warp", "model", "read"):
                setattr(builder, name, getattr(turn, name))
        self.turns.clear()
        self.pub.send("modeldHealth", event)
        self.listener.listen(0.0)


def test_warm_up_frames_are_no_measure() -> None:
    daemon = Daemon()
    for frame_id in range(WARMUP_FRAMES):
        daemon.answer(frame_id, 900)
    daemon.answer(WARMUP_FRAMES + 17, 40)
    daemon.beat()
    recorder = daemon.recorder
    assert recorder.answers == WARMUP_FRAMES + 1
    assert recorder.histograms[END_TO_END].count == 1
    assert recorder.misses.total == 0
    assert [row.answer.frame_id for row in recorder.rows] == [WARMUP_FRAMES + 17]


def warm(daemon: Daemon) -> int:
    for frame_id in range(WARMUP_FRAMES):
        daemon.answer(frame_id, 40)
    return WARMUP_FRAMES


def test_answers_and_the_daemons_own_times_are_matched_by_frame() -> None:
    daemon = Daemon()
    first = warm(daemon)
    for frame_id in range(first, first + 5):
        daemon.answer(frame_id, 40)
    daemon.beat()
    recorder = daemon.recorder
    assert [row.times.frame_id for row in recorder.rows] == list(range(first, first + 5))
    assert recorder.histograms["model"].summary_ms()["max"] == 5
    assert recorder.histograms["overhead"].summary_ms()["p50"] == 24
    assert recorder.histograms[END_TO_END].summary_ms()["max"] == 40
    assert daemon.seen == list(range(first + 5))
    assert daemon.listener.health.artifactId == "sha256:abc"


def test_skipped_frames_invalid_answers_and_silence_are_counted() -> None:
    daemon = Daemon()
    first = warm(daemon)
    daemon.answer(first, 40)
    daemon.answer(first + 3, 45, valid=False)
    recorder = daemon.recorder
    assert (recorder.misses.skipped, recorder.invalid) == (2, 1)
    recorder.finish(daemon.eof(first + 8))
    assert recorder.misses.skipped == 2 + 4
    assert recorder.misses.longest_run == 4


def test_times_of_unknown_or_other_frames_are_left_out() -> None:
    daemon = Daemon()
    first = warm(daemon)
    daemon.answer(first, 40)
    daemon.turns = [times(first, daemon.eof(first) + 1), times(999, 0)]
    daemon.beat()
    assert not daemon.recorder.rows


def test_a_daemon_that_tells_no_times_leaves_nothing_behind() -> None:
    daemon = Daemon()
    first = warm(daemon)
    for frame_id in range(first, first + 30):
        daemon.answer(frame_id, 40)
    daemon.turns = daemon.turns[-1:]
    daemon.beat()
    assert [row.times.frame_id for row in daemon.recorder.rows] == [first + 29]
    assert not daemon.recorder._unmatched


def test_the_first_answer_is_when_the_daemon_sent_it() -> None:
    daemon = Daemon()
    assert daemon.listener.first_answer is None
    daemon.answer(5, 60)
    daemon.beat()
    assert daemon.listener.first_answer == daemon.eof(5) + 60 * MS
    assert daemon.listener.first_published == times(5, daemon.eof(5)).published
