"""The services table against the schema and the facts."""

import pytest

import msgschema
from msgschema.services import BIG, BY_NAME, MEDIUM, SERVICES, SMALL

# old name -> 2026 name
RENAMES = {
    "liveCalibration": "extrinsicsCalibration",
    "liveDelay": "lateralDelay",
    "roadCameraState": "narrowRoadCameraState",
    "driverCameraState": "cabinCameraState",
    "roadEncodeIdx": "narrowRoadEncodeIdx",
    "driverEncodeIdx": "cabinEncodeIdx",
}


def test_every_service_is_a_member_of_the_union() -> None:
    members = set(msgschema.load().Event.schema.union_fields)
    assert {service.name for service in SERVICES} <= members


@pytest.mark.parametrize("old", RENAMES)
def test_old_and_new_names_are_one_service(old: str) -> None:
    assert BY_NAME[old] is BY_NAME[RENAMES[old]]
    assert BY_NAME[old].names == (RENAMES[old], old)


def test_no_name_belongs_to_two_services() -> None:
    names = [name for service in SERVICES for name in service.names]
    assert len(names) == len(set(names)) == len(BY_NAME)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("modelV2", (True, 20.0, None, BIG)),
        ("cameraOdometry", (True, 20.0, 10, SMALL)),
        ("extrinsicsCalibration", (True, 4.0, 4, SMALL)),
        ("deviceState", (True, 2.0, 1, SMALL)),
        ("controlsState", (True, 100.0, 10, MEDIUM)),
        ("narrowRoadEncodeIdx", (False, 20.0, 1, SMALL)),
        ("logMessage", (True, 0.0, None, BIG)),
    ],
)
def test_rates_and_queues(name: str, expected: tuple[object, ...]) -> None:
    service = BY_NAME[name]
    found = (service.logged, service.frequency, service.decimation, service.queue_size)
    assert found == expected
