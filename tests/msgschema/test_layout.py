"""The wire layout: measured offsets and sizes, and real messages byte for byte."""

import hashlib
import struct
from typing import Any

import pytest

import msgschema

LOG_FILE_ID = 0xF3B1F17E25A4285B
EVENT = msgschema.load().Event
UNION = {
    f.proto.ordinal.explicit: f for f in map(EVENT.schema.fields.get, EVENT.schema.union_fields)
}


def member_schema(name: str) -> Any:
    return EVENT.schema.fields[name].schema


def nested(name: str, *path: str) -> Any:
    schema = member_schema(name)
    for field in path:
        schema = schema.fields[field].schema
        schema = getattr(schema, "elementType", schema)
    return schema


def slots(schema: Any) -> dict[int, tuple[str, int]]:
    """Ordinal to (type, offset in units of the type), groups flattened."""
    found: dict[int, tuple[str, int]] = {}
    for field in schema.fields.values():
        if str(field.proto.which()) == "group":
            found |= slots(field.schema)
        else:
            slot = field.proto.slot
            found[field.proto.ordinal.explicit] = (str(slot.type.which()), slot.offset)
    return found


# (member, path to a nested struct) -> data words, pointers; measured with openpilot's own schema.
SIZES = {
    ("narrowRoadCameraState",): (12, 7),
    ("extrinsicsCalibration",): (2, 8),
    ("modelV2",): (6, 17),
    ("modelV2", "position"): (0, 7),
    ("modelV2", "leadsV3"): (1, 9),
    ("modelV2", "meta"): (3, 3),
    ("modelV2", "meta", "disengagePredictions"): (0, 9),
    ("modelV2", "action"): (2, 0),
    ("modelV2", "temporalPoseDEPRECATED"): (0, 4),
    ("drivingModelData",): (3, 4),
    ("cameraOdometry",): (2, 8),
    ("narrowRoadEncodeIdx",): (6, 0),
    ("lateralDelay",): (3, 1),
    ("driverStateV2",): (3, 3),
    ("driverMonitoringState",): (2, 3),
    ("deviceState",): (15, 11),
}

# member, field -> type and offset in units of the type (bits for bool, index for pointers).
OFFSETS = {
    ("modelV2", "frameId"): ("uint32", 0),
    ("modelV2", "frameAge"): ("uint32", 1),
    ("modelV2", "frameDropPerc"): ("float32", 2),
    ("modelV2", "modelExecutionTime"): ("float32", 3),
    ("modelV2", "timestampEof"): ("uint64", 2),
    ("modelV2", "gpuExecutionTimeDEPRECATED"): ("float32", 6),
    ("modelV2", "frameIdExtra"): ("uint32", 7),
    ("modelV2", "navEnabledDEPRECATED"): ("bool", 256),
    ("modelV2", "big"): ("bool", 257),
    ("modelV2", "confidence"): ("enum", 17),
    ("modelV2", "locationMonoTimeDEPRECATED"): ("uint64", 5),
    ("modelV2", "position"): ("struct", 0),
    ("modelV2", "orientation"): ("struct", 1),
    ("modelV2", "velocity"): ("struct", 2),
    ("modelV2", "orientationRate"): ("struct", 3),
    ("modelV2", "laneLines"): ("list", 4),
    ("modelV2", "laneLineProbs"): ("list", 5),
    ("modelV2", "roadEdges"): ("list", 6),
    ("modelV2", "leadsDEPRECATED"): ("list", 7),
    ("modelV2", "meta"): ("struct", 8),
    ("modelV2", "laneLineStds"): ("list", 9),
    ("modelV2", "roadEdgeStds"): ("list", 10),
    ("modelV2", "rawPredictions"): ("data", 11),
    ("modelV2", "leadsV3"): ("list", 12),
    ("modelV2", "acceleration"): ("struct", 13),
    ("modelV2", "temporalPoseDEPRECATED"): ("struct", 14),
    ("modelV2", "lateralPlannerSolutionDEPRECATED"): ("anyPointer", 15),
    ("modelV2", "action"): ("struct", 16),
    ("deviceState", "deviceType"): ("enum", 41),
    ("deviceState", "started"): ("bool", 192),
    ("deviceState", "thermalStatus"): ("enum", 13),
    ("driverMonitoringState", "isRHD"): ("bool", 3),
}

# Structs with ids of their own; the others' follow from the file's id and their name.
EXPLICIT_IDS = {
    "extrinsicsCalibration": 0x96DF70754D8390BC,
    "lateralDelay": 0x98DFDB22C44DF8D4,
    "deviceState": 0xA4D8B5AF2AA492EB,
    "driverMonitoringStateDEPRECATED": 0xB83CDA094A1DA284,
    "controlsState": 0x97FF69C53601ABF1,
}

DERIVED_IDS = {
    "FrameData": "narrowRoadCameraState",
    "ModelDataV2": "modelV2",
    "DrivingModelData": "drivingModelData",
    "CameraOdometry": "cameraOdometry",
    "EncodeIndex": "narrowRoadEncodeIdx",
    "EncodeData": "narrowRoadEncodeData",
    "DriverStateV2": "driverStateV2",
    "DriverMonitoringState": "driverMonitoringState",
    "SelfdriveState": "selfdriveState",
    "InitData": "initData",
    "Sentinel": "sentinel",
    "ManagerState": "managerState",
    "Clocks": "clocks",
    "Thumbnail": "thumbnail",
}

# Events that command the car or carry its bus: CAN in, CAN out, and the panda's.
BUS_ORDINALS = (5, 12, 17, 80, 81)


@pytest.mark.parametrize("path", SIZES, ids=".".join)
def test_struct_sizes(path: tuple[str, ...]) -> None:
    node = nested(*path).node.struct
    assert (node.dataWordCount, node.pointerCount) == SIZES[path]


@pytest.mark.parametrize("path", OFFSETS, ids=".".join)
def test_field_offsets(path: tuple[str, str]) -> None:
    slot = member_schema(path[0]).fields[path[1]].proto.slot
    assert (str(slot.type.which()), slot.offset) == OFFSETS[path]


def test_ids_are_openpilots() -> None:
    assert {name: member_schema(name).node.id for name in EXPLICIT_IDS} == EXPLICIT_IDS
    assert nested("modelV2", "position").node.id == 0xC3CBAE1FD505AE80


def test_other_ids_follow_from_the_log_file_as_if_declared_there() -> None:
    def derived(name: str) -> int:
        # Cap'n Proto's rule for a type without an id.
        digest = hashlib.md5(struct.pack("<Q", LOG_FILE_ID) + name.encode()).digest()  # noqa: S324
        return int.from_bytes(digest[:8], "big") | 1 << 63

    assert EVENT.schema.node.id == derived("Event") == 0xD314CFD957229C11
    found = {name: member_schema(member).node.id for name, member in DERIVED_IDS.items()}
    assert found == {name: derived(name) for name in DERIVED_IDS}


def test_ordinals_are_complete_in_every_struct() -> None:
    for name in EVENT.schema.union_fields:
        field = EVENT.schema.fields[name]
        if str(field.proto.slot.type.which()) == "struct":
            ordinals = sorted(slots(field.schema))
            assert ordinals == list(range(len(ordinals))), name


def test_event_has_every_ordinal_and_two_words() -> None:
    node = EVENT.schema.node.struct
    assert (node.dataWordCount, node.pointerCount) == (2, 1)
    assert (node.discriminantCount, node.discriminantOffset) == (153, 4)
    assert sorted(UNION) == [n for n in range(1, 155) if n != 67]
    for ordinal, field in UNION.items():
        assert field.proto.discriminantValue == ordinal - (1 if ordinal < 67 else 2)
        assert field.proto.slot.offset == 0


def test_event_bytes() -> None:
    # logMonoTime, then discriminant at bit 64 and valid, inverted, at bit 80.
    event = EVENT.new_message(logMonoTime=0x0102030405060708, valid=False)
    event.init("modelV2")
    words = struct.unpack_from("<4Q", event.to_bytes(), 8)
    assert words[1] == 0x0102030405060708
    assert words[2] == 73 | 1 << 16
    assert len(EVENT.new_message().to_bytes()) == 40


def test_valid_defaults_to_true_for_senders_without_the_field() -> None:
    words = struct.pack("<II4Q", 0, 4, 2 << 32 | 1 << 48, 5, 0, 0)
    event = next(EVENT.read_multiple_bytes(words))
    assert event.valid
    assert event.logMonoTime == 5


def test_no_member_speaks_to_the_car() -> None:
    for ordinal in BUS_ORDINALS:
        assert UNION[ordinal].proto.name == f"reserved{ordinal}"
    for field in UNION.values():
        name = str(field.proto.name)
        assert "can" not in name.lower().replace("cancel", ""), name
        assert "panda" not in name.lower(), name
        is_pointer = str(field.proto.slot.type.which()) == "anyPointer"
        assert is_pointer == name.startswith("reserved"), name


def test_health_sits_in_the_last_custom_slot_under_its_id() -> None:
    assert UNION[145].proto.name == "modeldHealth"
    assert member_schema("modeldHealth").node.id == 0xA4F1EB3323F5F582
