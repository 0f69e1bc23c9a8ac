"""The services table: what is published, how often, and what of it is logged.

Numbers and names are openpilot's `services.py`; a service's first name is the one of the 2026
renaming, which is also the name of its member in the `Event` union. The name is the socket's
address, so older devices speak under the aliases and both are used.
"""

from dataclasses import dataclass
from types import MappingProxyType

SMALL = 250 * 1024
MEDIUM = 2 * 1024 * 1024
BIG = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Service:
    """One message stream.

    `frequency` is in Hz, 0 for streams without a rhythm. `decimation` n keeps every n-th message
    in a qlog, None keeps none. `queue_size` is the shared-memory ring's length in bytes.
    """

    name: str
    aliases: tuple[str, ...]
    logged: bool
    frequency: float
    decimation: int | None
    queue_size: int

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the stream goes by, its own first."""
        return (self.name, *self.aliases)


# name, aliases, logged, Hz, decimation, queue
_TABLE: tuple[tuple[str, tuple[str, ...], bool, float, int | None, int], ...] = (
    ("modelV2", (), True, 20.0, None, BIG),
    ("drivingModelData", (), True, 20.0, 10, SMALL),
    ("cameraOdometry", (), True, 20.0, 10, SMALL),
    ("narrowRoadCameraState", ("roadCameraState",), True, 20.0, 20, SMALL),
    ("wideRoadCameraState", (), True, 20.0, 20, SMALL),
    ("cabinCameraState", ("driverCameraState",), True, 20.0, 20, SMALL),
    ("narrowRoadEncodeIdx", ("roadEncodeIdx",), False, 20.0, 1, SMALL),
    ("wideRoadEncodeIdx", (), False, 20.0, 1, SMALL),
    ("cabinEncodeIdx", ("driverEncodeIdx",), False, 20.0, 1, SMALL),
    ("qNarrowRoadEncodeIdx", ("qRoadEncodeIdx",), False, 20.0, None, SMALL),
    ("narrowRoadEncodeData", ("roadEncodeData",), False, 20.0, None, BIG),
    ("wideRoadEncodeData", (), False, 20.0, None, BIG),
    ("cabinEncodeData", ("driverEncodeData",), False, 20.0, None, BIG),
    ("qNarrowRoadEncodeData", ("qRoadEncodeData",), False, 20.0, None, BIG),
    ("thumbnail", (), True, 1 / 60, 1, SMALL),
    ("driverStateV2", (), True, 20.0, 10, SMALL),
    ("driverMonitoringState", (), True, 20.0, 10, SMALL),
    ("extrinsicsCalibration", ("liveCalibration",), True, 4.0, 4, SMALL),
    ("lateralDelay", ("liveDelay",), True, 4.0, 1, SMALL),
    ("deviceState", (), True, 2.0, 1, SMALL),
    ("managerState", (), True, 2.0, 1, SMALL),
    ("carState", (), True, 100.0, 10, SMALL),
    ("carControl", (), True, 100.0, 10, SMALL),
    ("carParams", (), True, 0.02, 1, SMALL),
    ("controlsState", (), True, 100.0, 10, MEDIUM),
    ("selfdriveState", (), True, 100.0, 10, SMALL),
    ("clocks", (), True, 0.1, 1, SMALL),
    ("logMessage", (), True, 0.0, None, BIG),
    ("errorLogMessage", (), True, 0.0, 1, BIG),
    # Ours: how this daemon fares, once a second whether frames come or not.
    ("modeldHealth", (), True, 1.0, 1, SMALL),
)

SERVICES = tuple(Service(*row) for row in _TABLE)

# Every name, old or new, to its service.
BY_NAME = MappingProxyType({name: service for service in SERVICES for name in service.names})
