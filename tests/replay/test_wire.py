"""The two ends of serving, on a wire in memory."""

from modeld.fakes.clock import FakeClock
from modeld.fakes.transport import MemoryTransport
from modeld.messaging import new_event
from modeld.replay.wire import Listener, Speaker


def message(service: str, **values: object) -> bytes:
    event = new_event(service, FakeClock(), valid=True)
    for name, value in values.items():
        setattr(getattr(event, service), name, value)
    data: bytes = event.to_bytes()
    return data


def test_of_a_long_queue_the_newest_go_out_in_order() -> None:
    wire = MemoryTransport()
    inbox = wire.inbox(["carState", "deviceState"], conflate=False)
    speaker = Speaker(["carState", "deviceState"], wire, wire, FakeClock())
    cars = [message("carState", vEgo=float(speed)) for speed in range(50)]
    device = message("deviceState")
    speaker.say([("deviceState", device), *(("carState", car) for car in cars)], 1.0)
    assert [inbox.receive("carState") for _ in range(21)] == [*cars[-20:], None]
    assert inbox.receive("deviceState") == device


def test_the_wait_for_readers_ends() -> None:
    class Stuck(FakeClock):
        def monotonic_ns(self) -> int:
            self.advance(100_000_000)
            return super().monotonic_ns()

    clock = Stuck()
    # Nothing that is sent ever comes back.
    speaker = Speaker(["carState"], MemoryTransport(), MemoryTransport(), clock)
    speaker.say([("carState", message("carState"))], 1.0)
    assert 1.0 <= (clock.monotonic_ns() - 1_000_000_000) / 1e9 < 1.6


def test_readers_are_known_beside_the_echo() -> None:
    wire = MemoryTransport()
    speaker = Speaker(["carState"], wire, wire, FakeClock())
    assert not speaker.listened_to()
    wire.inbox(["carState"])
    assert speaker.listened_to()


def test_answers_are_heard_with_their_latency_and_garbage_is_none() -> None:
    wire, clock = MemoryTransport(), FakeClock()
    listener = Listener(wire, clock)
    model, odometry = wire.publisher("modelV2"), wire.publisher("cameraOdometry")
    listener.expect(7)
    clock.advance(12_000_000)
    assert not listener.wait("modelV2", 7, 0.0)
    answers = message("modelV2", frameId=7), message("cameraOdometry", frameId=7)
    foreign = message("carState")
    for data in (b"garbage", foreign, answers[0]):
        model.send(data)
    odometry.send(answers[1])
    assert listener.wait("modelV2", 7, 0.0)
    assert listener.wait("cameraOdometry", 7, 0.0)
    assert not listener.wait("drivingModelData", 7, 0.0)
    heard = listener.take()
    assert heard.answers == answers
    assert (heard.frames, heard.latencies) == ((7,), (12_000_000,))
    # The same frame once more is an answer too, but to nothing that was asked.
    model.send(answers[0])
    heard = listener.take()
    assert (heard.answers, heard.frames) == (answers[:1], ())


def test_frames_that_are_never_answered_are_forgotten() -> None:
    wire = MemoryTransport()
    listener = Listener(wire, FakeClock())
    publisher = wire.publisher("modelV2")
    for frame_id in range(1000):
        listener.expect(frame_id)
    for frame_id in (0, 935, 936, 999):
        publisher.send(message("modelV2", frameId=frame_id))
    assert listener.take().frames == (936, 999)
