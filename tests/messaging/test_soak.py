"""Memory over many messages: a sample of the ten million that a device sees in half a day.

Measured over the million of the long run: RSS flat after the first few thousand. The short run
keeps that in the default suite. (libzmq's CONFLATE option fails it: about six bytes a message.)
"""

from pathlib import Path

import pytest

from modeld.clock import SystemClock
from modeld.messaging import PubMaster, SubMaster, ZmqTransport

SERVICES = ("carState", "extrinsicsCalibration", "modelV2")
PAGE = 4096


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def one_turn(pub: PubMaster, sub: SubMaster) -> int:
    for service in SERVICES:
        event = pub.new_event(service, valid=True)
        if service == "modelV2":
            for line in event.modelV2.init("laneLines", 4):
                line.y = [0.5] * 33
        elif service == "extrinsicsCalibration":
            event.extrinsicsCalibration.rpyCalib = [0.0, 0.01, 0.02]
        else:
            event.carState.vEgo = 13.0
        pub.send(service, event)
    pub.send("carState", b"garbage!")
    sub.update()
    list(sub["extrinsicsCalibration"].rpyCalib)
    sub["modelV2"].frameId  # noqa: B018 — a read, to spend what a read may cost
    return len(SERVICES) + 1


@pytest.mark.parametrize("count", [40_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_messages(wire: ZmqTransport, count: int) -> None:
    clock = SystemClock()
    sub, pub = SubMaster(SERVICES, wire, clock), PubMaster(SERVICES, wire, clock)
    assert pub.wait_for_subscribers(dict.fromkeys(SERVICES, 1), 10.0)
    sent, warm = 0, 0
    while sent < count:
        sent += one_turn(pub, sub)
        # By then every queue, average and allocator has seen its fill.
        if not warm and sent > count // 2:
            warm = resident_bytes()
    growth = resident_bytes() - warm
    assert growth < 512 * 1024, f"{growth} bytes over {count // 2} messages"
    assert sub.seen == dict.fromkeys(SERVICES, True)
