import logging

import pytest
from daemon_bench import ListeningNotifier

from modeld.counts import Count
from modeld.fakes.clock import FakeClock
from modeld.fakes.transport import MemoryTransport
from modeld.health import (
    START_LIMIT_S,
    Health,
    HealthTimer,
    Identity,
    State,
    TurnTimes,
    fill_health,
)
from modeld.messaging import PubMaster, decode_event

MS = 1_000_000


def times(frame_id: int, synced: int, turn_ms: float = 10) -> TurnTimes:
    return TurnTimes(
        frame_id=frame_id,
        timestamp_eof=synced - 2 * MS,
        received=synced - MS,
        synced=synced,
        executed=synced + round((turn_ms - 1) * MS),
        parsed=synced + round((turn_ms - 0.5) * MS),
        published=synced + round(turn_ms * MS),
        upload=1 * MS,
        warp=2 * MS,
        model=3 * MS,
        read=MS // 2,
    )


class Told:
    """Health with a timer that publishes to memory."""

    def __init__(self) -> None:
        self.clock = FakeClock(0)
        self.notifier = ListeningNotifier()
        self.health = Health(self.clock, self.notifier)
        transport = MemoryTransport()
        self.inbox = transport.inbox(["modeldHealth"], conflate=False)
        self.pub = PubMaster(["modeldHealth"], transport, self.clock)
        self.timer = HealthTimer(self.health, self.publish)

    def publish(self, health: Health) -> None:
        event = self.pub.new_event("modeldHealth", valid=True)
        fill_health(event.modeldHealth, health, health.take_turns(), self.clock.monotonic_ns())
        self.pub.send("modeldHealth", event)

    def beat(self):
        self.timer.beat()
        data = self.inbox.receive("modeldHealth")
        assert data is not None
        return decode_event(data).modeldHealth


def test_stages_of_a_turn() -> None:
    assert times(1, 100 * MS).stages() == {
        "sync": 1 * MS,
        "upload": 1 * MS,
        "warp": 2 * MS,
        "model": 3 * MS,
        "read": MS // 2,
        "host": 5 * MS // 2,
        "parse": MS // 2,
        "publish": MS // 2,
        "turn": 10 * MS,
    }


def test_health_flows_without_frames() -> None:
    told = Told()
    assert str(told.beat().state) == "loading"
    told.health.ready()
    message = told.beat()
    assert str(message.state) == "running"
    assert (message.lastFrameId, message.lastFrameEof, message.lastFrameAgeNs) == (0, 0, 0)
    told.clock.sleep(1.5)
    message = told.beat()
    assert str(message.state) == "stalled"
    assert message.stateReason == "no frame answered for 1.5 s"
    assert message.uptimeNs == 1_500 * MS


def test_health_message_holds_everything() -> None:
    told = Told()
    told.health.identity = Identity("sha256:ab", "small", "degraded", ("other driver", "unpinned"))
    told.health.camera_counts = lambda: {Count.RECONNECTS: 4, Count.REJECTED_FRAMES: 5}
    told.health.report(Count.REJECTED_FRAMES, "short")
    told.health.rejected_on_wire = 2
    told.health.report(Count.REJECTED_MESSAGES, "bad")
    told.health.report(Count.OUT_OF_SYNC, "apart")
    told.health.counts[Count.DROPS] += 3
    told.clock.set(1000 * MS)
    told.health.ready()
    for i in range(3):
        told.health.answered(times(i, (1000 + 50 * i) * MS, 10 if i else 60))
    told.clock.set(1200 * MS)
    message = told.beat()
    assert (message.artifactId, message.artifactName) == ("sha256:ab", "small")
    assert str(message.verdict) == "degraded"
    assert list(message.verdictReasons) == ["other driver", "unpinned"]
    counters = message.counters
    assert (counters.frames, counters.drops, counters.reconnects) == (3, 3, 4)
    assert (counters.rejectedMessages, counters.outOfSyncPairs) == (3, 1)
    assert counters.deadlineMisses == 1
    assert counters.rejectedFrames == 6
    assert message.lastFrameId == 2
    assert message.lastFrameEof == 1098 * MS
    assert message.lastFrameAgeNs == 102 * MS
    assert {s.name: s.durationNs for s in message.stages} == times(2, 1100 * MS).stages()
    assert [t.frameId for t in message.turns] == [0, 1, 2]
    turn = message.turns[1]
    assert (turn.received, turn.synced, turn.published) == (1049 * MS, 1050 * MS, 1060 * MS)
    assert (turn.upload, turn.warp, turn.model, turn.read) == (MS, 2 * MS, 3 * MS, MS // 2)
    assert len(told.beat().turns) == 0


def test_every_count_is_a_field_of_the_message() -> None:
    told = Told()
    for i, count in enumerate(Count):
        if count not in (Count.RECONNECTS,):
            told.health.counts[count] = i + 1
    counters = told.beat().counters.to_dict()
    assert counters == {
        count: 0 if count is Count.RECONNECTS else i + 1 for i, count in enumerate(Count)
    }


def test_watchdog_is_fed_by_answers_only() -> None:
    told = Told()
    told.health.ready()
    for _ in range(100):
        told.clock.sleep(1)
        told.beat()
    assert told.notifier.count("WATCHDOG") == 0
    told.health.answered(times(0, told.clock.monotonic_ns()))
    assert told.notifier.count("WATCHDOG") == 1


def test_watchdog_waits_disarmed_until_frames_come() -> None:
    told = Told()
    told.health.ready()
    assert told.notifier.count("WATCHDOG_USEC") == 1
    for _ in range(3):
        told.health.frames_came()
    periods = [sent["WATCHDOG_USEC"] for sent in told.notifier.sent if "WATCHDOG_USEC" in sent]
    assert len(periods) == 2
    assert periods[1] == 1_000_000 < int(periods[0])


def test_ready_once_and_status_lines() -> None:
    told = Told()
    told.beat()
    told.health.enter(State.WARMING, "self-test")
    told.beat()
    assert told.notifier.count("READY") == 0
    told.health.ready()
    told.health.answered(times(0, 10 * MS))
    told.beat()
    assert told.notifier.count("READY") == 1
    status = [sent["STATUS"] for sent in told.notifier.sent if "STATUS" in sent]
    assert status == [
        "loading: loading the artifact",
        "warming: self-test",
        "running, waiting for frames",
        "running, 1 frames answered, 0 dropped",
    ]


def test_start_is_extended_until_its_limit() -> None:
    told = Told()
    beats = 0
    while told.clock.monotonic_ns() < (START_LIMIT_S + 60) * 1e9:
        told.beat()
        beats += 1
        told.clock.sleep(1)
    assert told.notifier.count("EXTEND_TIMEOUT_USEC") == START_LIMIT_S
    assert beats == START_LIMIT_S + 60
    told.health.ready()
    told.beat()
    assert told.notifier.count("EXTEND_TIMEOUT_USEC") == START_LIMIT_S


def test_trouble_and_standing_reasons() -> None:
    told = Told()
    told.health.standing = ("built for driver 3.1, found 6.0",)
    told.health.ready()
    assert str(told.beat().state) == "degraded"
    told.health.trouble("not finite")
    assert told.beat().stateReason == "not finite"
    told.health.recovered()
    message = told.beat()
    assert (str(message.state), message.stateReason) == (
        "degraded",
        "built for driver 3.1, found 6.0",
    )
    told.health.standing = ()
    told.health.trouble("not finite")
    told.health.recovered()
    assert str(told.beat().state) == "running"


def test_faults_are_logged_once_per_kind_and_subject(caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    with caplog.at_level(logging.WARNING):
        for subject in ("carState", "carState", "lateralDelay"):
            told.health.report(Count.REJECTED_MESSAGES, f"{subject} is nan", subject)
        told.health.report(Count.OUT_OF_SYNC, "apart by 20 ms")
    assert [record.getMessage() for record in caplog.records] == [
        "carState is nan (further ones are counted as rejectedMessages)",
        "lateralDelay is nan (further ones are counted as rejectedMessages)",
        "apart by 20 ms (further ones are counted as outOfSyncPairs)",
    ]
    assert told.health.counts[Count.REJECTED_MESSAGES] == 3


def test_turns_between_beats_are_bounded() -> None:
    told = Told()
    for i in range(1000):
        told.health.answered(times(i, i * MS + 10 * MS))
    turns = told.beat().turns
    assert len(turns) == 128
    assert turns[len(turns) - 1].frameId == 999


def test_timer_thread_tells_a_last_time_when_stopped() -> None:
    told = Told()
    told.timer.start()
    told.timer.stop()
    assert told.inbox.receive("modeldHealth") is not None
