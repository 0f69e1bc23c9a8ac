"""What a log begins and ends with."""

from typing import Any

import msgschema
from modeld.clock import Clock
from modeld.replay.simulation import Recording


def opening(recording: Recording, clock: Clock) -> tuple[bytes, ...]:
    """What the device is, and the start of the route."""
    event = _mark(clock)
    device = event.init("initData")
    device.deviceType = recording.profile.device_type
    device.version = "modeld replay"
    return event.to_bytes(), _sentinel("startOfRoute", clock)


def closing(clock: Clock) -> tuple[bytes, ...]:
    """The end of the route."""
    return (_sentinel("endOfRoute", clock),)


def _sentinel(kind: str, clock: Clock) -> bytes:
    event = _mark(clock)
    event.init("sentinel").type = kind
    data: bytes = event.to_bytes()
    return data


def _mark(clock: Clock) -> Any:
    # Marks exist in logs only, so they are no services.
    return msgschema.load().Event.new_message(logMonoTime=clock.monotonic_ns(), valid=True)
