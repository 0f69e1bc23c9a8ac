"""Real sockets: openpilot's addresses, the first message, strangers on the wire."""

from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from modeld.clock import SystemClock
from modeld.errors import ModeldError
from modeld.messaging import PubMaster, SubMaster, ZmqTransport, decode_event
from modeld.messaging.zmq_transport import ZmqInbox, port_of
from msgschema.services import BY_NAME

# Computed by openpilot's own rule.
PORTS = {
    "modelV2": 58537,
    "drivingModelData": 49244,
    "cameraOdometry": 50972,
    "roadCameraState": 12432,
    "wideRoadCameraState": 53095,
    "driverCameraState": 46980,
    "narrowRoadCameraState": 20911,
    "cabinCameraState": 15833,
    "driverStateV2": 45495,
    "driverMonitoringState": 31369,
    "liveCalibration": 36768,
    "extrinsicsCalibration": 32584,
    "carState": 9041,
    "carControl": 63225,
    "deviceState": 17667,
    "controlsState": 44127,
    "selfdriveState": 9797,
    "liveDelay": 53853,
    "lateralDelay": 34210,
    "roadEncodeIdx": 43171,
    "wideRoadEncodeIdx": 25468,
    "carParams": 40326,
    "managerState": 44328,
}

WAIT_S = 10.0
CLOCK = SystemClock()


def receive(inbox: ZmqInbox, service: str) -> bytes:
    assert inbox.wait(WAIT_S), f"nothing came for {service}"
    data = inbox.receive(service)
    assert data is not None
    return data


def connect(pub: PubMaster, **wanted: int) -> None:
    assert pub.wait_for_subscribers(wanted, WAIT_S)


def test_ports_are_openpilots() -> None:
    assert {name: port_of(name) for name in PORTS} == PORTS


def test_no_two_names_share_a_port() -> None:
    assert len({port_of(name) for name in BY_NAME}) == len(BY_NAME)


def test_the_first_message_is_heard(wire: ZmqTransport) -> None:
    sub = SubMaster(["carState"], wire, CLOCK)
    pub = PubMaster(["carState"], wire, CLOCK)
    connect(pub, carState=1)
    event = pub.new_event("carState", valid=True)
    event.carState.vEgo = 4.5
    pub.send("carState", event)
    sub.update(timeout_s=WAIT_S)
    assert sub.updated["carState"]
    assert sub["carState"].vEgo == 4.5


def test_readers_are_counted_as_they_come_and_go(loopback: str, wire: ZmqTransport) -> None:
    pub = PubMaster(["carState"], wire, CLOCK)
    assert not pub.wait_for_subscribers({"carState": 1}, 0.0)
    with ZmqTransport(connect=loopback) as other:
        SubMaster(["carState"], other, CLOCK)
        SubMaster(["carState"], other, CLOCK)
        connect(pub, carState=2)
    publisher = pub._publishers["carState"]
    deadline = CLOCK.monotonic_ns() + round(WAIT_S * 1e9)
    while publisher.subscribers() and CLOCK.monotonic_ns() < deadline:
        CLOCK.sleep(0.001)
    assert publisher.subscribers() == 0


def test_conflating_keeps_the_newest_and_the_other_keeps_all(wire: ZmqTransport) -> None:
    newest = wire.inbox(["carState"])
    every = wire.inbox(["carState"], conflate=False)
    pub = PubMaster(["carState"], wire, CLOCK)
    connect(pub, carState=2)
    for index in range(50):
        pub.send("carState", bytes([index]) * 8)
    assert [receive(every, "carState")[0] for _ in range(50)] == list(range(50))
    last = receive(newest, "carState")[0]
    while last != 49:  # it may have looked before all had come
        last = receive(newest, "carState")[0]
    assert newest.receive("carState") is None


def test_a_subscriber_hears_a_service_under_its_old_name(wire: ZmqTransport) -> None:
    sub = SubMaster(["extrinsicsCalibration"], wire, CLOCK)
    pub = PubMaster(["liveCalibration"], wire, CLOCK)
    connect(pub, liveCalibration=1)
    pub.send("liveCalibration", pub.new_event("liveCalibration", valid=True))
    sub.update(timeout_s=WAIT_S)
    assert sub.updated["extrinsicsCalibration"]


def test_a_plain_pub_socket_is_understood(
    loopback: str, wire: ZmqTransport, data_path: Callable[[str], Path]
) -> None:
    # What openpilot's bridge is: a PUB that knows nothing of subscribers.
    content = data_path("logs/messages/modelV2.raw").read_bytes()
    sub = SubMaster(["modelV2"], wire, CLOCK)
    with zmq.Context() as context, context.socket(zmq.PUB) as bridge:
        bridge.bind(f"tcp://{loopback}:{port_of('modelV2')}")
        for _ in range(1000):
            bridge.send(content)
            sub.update(timeout_s=0.01)
            if sub.updated["modelV2"]:
                break
    assert sub["modelV2"].frameId == 3602


def test_a_plain_sub_socket_hears_us(loopback: str, wire: ZmqTransport) -> None:
    pub = PubMaster(["modelV2"], wire, CLOCK)
    with zmq.Context() as context, context.socket(zmq.SUB) as reader:
        reader.subscribe(b"")
        reader.connect(f"tcp://{loopback}:{port_of('modelV2')}")
        connect(pub, modelV2=1)
        pub.send("modelV2", pub.new_event("modelV2"))
        assert reader.poll(round(WAIT_S * 1000))
        data = reader.recv()
        assert not reader.get(zmq.RCVMORE)
    assert decode_event(data).which() == "modelV2"


def test_garbage_from_a_stranger_is_counted(loopback: str, wire: ZmqTransport) -> None:
    sub = SubMaster(["carState", "deviceState"], wire, CLOCK)
    with zmq.Context() as context, context.socket(zmq.XPUB) as stranger:
        stranger.bind(f"tcp://{loopback}:{port_of('carState')}")
        assert stranger.poll(round(WAIT_S * 1000))
        for garbage in (b"\x00", bytes(range(256)), b"x" * 100_000):
            stranger.send(garbage)
            sub.update(timeout_s=WAIT_S)
    assert sum(sub.rejected.values()) == 3
    assert not sub.seen["carState"]


def test_a_stranger_that_speaks_no_zeromq_disturbs_nobody(
    loopback: str, wire: ZmqTransport
) -> None:
    import socket

    pub = PubMaster(["carState"], wire, CLOCK)
    with socket.create_connection((loopback, port_of("carState")), WAIT_S) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        inbox = wire.inbox(["carState"])
        # It may count as a reader itself: ZeroMQ takes it for a peer of its first version.
        for _ in range(1000):
            pub.send("carState", b"still here")
            if inbox.wait(0.01):
                break
        assert receive(inbox, "carState") == b"still here"


def test_a_taken_port_is_named(loopback: str, wire: ZmqTransport) -> None:
    PubMaster(["modelV2"], wire, CLOCK)
    with (
        ZmqTransport(bind=loopback) as other,
        pytest.raises(
            ModeldError, match=rf"cannot publish modelV2 on tcp://{loopback}:58537 .*use"
        ),
    ):
        PubMaster(["modelV2"], other, CLOCK)


def test_an_address_that_is_not_ours_is_named() -> None:
    with (
        ZmqTransport(bind="192.0.2.1") as transport,
        pytest.raises(ModeldError, match=r"tcp://192\.0\.2\.1:58537 .*bind to another address"),
    ):
        PubMaster(["modelV2"], transport, CLOCK)


def test_a_host_that_is_none_is_named() -> None:
    with (
        ZmqTransport(connect="not a host") as transport,
        pytest.raises(ModeldError, match=r"cannot listen to carState at tcp://not a host:9041"),
    ):
        transport.inbox(["carState"])


def test_loopback_is_the_default() -> None:
    with ZmqTransport() as transport:
        assert (transport._bind, transport._connect) == ("127.0.0.1", "127.0.0.1")


def test_a_reader_that_stops_costs_no_memory_and_no_time(wire: ZmqTransport) -> None:
    stopped = wire.inbox(["modelV2"], conflate=False)
    pub = PubMaster(["modelV2"], wire, CLOCK)
    connect(pub, modelV2=1)
    for index in range(5000):
        pub.send("modelV2", index.to_bytes(8, "little") * 1000)
    held = 0
    while stopped.wait(0.2):
        assert stopped.receive("modelV2") is not None
        held += 1
    # Both ends' queues and the kernel's buffers, not the five thousand.
    assert 100 <= held < 5000
