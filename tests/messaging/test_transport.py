"""The wire in memory, and two wires as one."""

from modeld.fakes.clock import FakeClock
from modeld.fakes.transport import MemoryTransport
from modeld.messaging import MergedTransport, PubMaster, SubMaster

CLOCK = FakeClock()


def test_memory_delivers_in_order_to_everyone() -> None:
    with MemoryTransport() as wire:
        first = wire.inbox(["carState", "deviceState"], conflate=False)
        second = wire.inbox(["carState"])
        publisher = wire.publisher("carState")
        assert publisher.subscribers() == 2
        assert not first.wait(1.0)
        for data in (b"1", b"2"):
            publisher.send(data)
        assert first.wait(0.0)
        assert [first.receive("carState") for _ in range(3)] == [b"1", b"2", None]
        assert [second.receive("carState") for _ in range(2)] == [b"2", None]
        assert first.receive("deviceState") is None
    publisher.send(b"3")
    assert first.receive("carState") is None


def test_merged_hears_both_and_speaks_to_both() -> None:
    simulated, world = MemoryTransport(), MemoryTransport()
    with MergedTransport(simulated, world) as merged:
        inbox = merged.inbox(["carState", "deviceState"])
        world.publisher("deviceState").send(b"world")
        assert inbox.wait(0.0)
        simulated.publisher("carState").send(b"simulated")
        assert inbox.receive("carState") == b"simulated"
        assert inbox.receive("deviceState") == b"world"
        assert inbox.receive("deviceState") is None
        outside = world.inbox(["modelV2"])
        publisher = merged.publisher("modelV2")
        assert publisher.subscribers() == 1
        publisher.send(b"model")
        assert outside.receive("modelV2") == b"model"


def test_waiting_for_readers_moves_only_the_given_clock() -> None:
    clock, wire = FakeClock(), MemoryTransport()
    pub = PubMaster(["modelV2"], wire, clock)
    start = clock.monotonic_ns()
    assert not pub.wait_for_subscribers({"modelV2": 1}, 10.0)
    assert clock.monotonic_ns() - start >= 10 * 10**9
    SubMaster(["modelV2"], wire, clock)
    assert pub.wait_for_subscribers({"modelV2": 1}, 0.0)
