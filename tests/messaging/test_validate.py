"""Messages that must not be read: truncated, garbage, hostile; and proof that the rest may."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modeld.fakes.clock import FakeClock
from modeld.messaging import MessageError, decode_event, new_event, validate
from modeld.messaging.validate import Checker

CALIBRATION, MODEL, LOG = 18, 73, 17  # discriminants
HUGE = (1 << 29) - 1


def message(*words: int, segments: tuple[tuple[int, ...], ...] = ()) -> bytes:
    parts = (words, *segments)
    table = struct.pack(f"<{1 + len(parts)}I", len(parts) - 1, *map(len, parts))
    table += bytes(-len(table) % 8)
    return table + b"".join(struct.pack("<Q", word) for part in parts for word in part)


def struct_pointer(offset: int, data: int, pointers: int) -> int:
    return (offset & 0x3FFFFFFF) << 2 | data << 32 | pointers << 48


def list_pointer(offset: int, code: int, count: int) -> int:
    return 1 | (offset & 0x3FFFFFFF) << 2 | code << 32 | count << 35


def far_pointer(segment: int, word: int, *, double: bool = False) -> int:
    return 2 | double << 2 | word << 3 | segment << 32


def event(discriminant: int, *rest: int, **segments: Any) -> bytes:
    """An Event whose member's pointer is the first of `rest`, at word 3 of its segment."""
    return message(struct_pointer(0, 2, 1), 5, discriminant | 1 << 16, *rest, **segments)


def calibration(*pointers: int) -> bytes:
    """An extrinsicsCalibration with these of its eight pointers."""
    return event(CALIBRATION, struct_pointer(0, 2, 8), 0, 0, *pointers, *[0] * (8 - len(pointers)))


def model(*pointers: int) -> bytes:
    """A modelV2 without data words, with these of its seventeen pointers."""
    return event(MODEL, struct_pointer(0, 0, 17), *pointers, *[0] * (17 - len(pointers)))


SOUND = new_event("carState", FakeClock(), valid=True).to_bytes()

CASES = {
    "empty": (b"", "empty"),
    "text": (b"hello, is this modelV2?!", "framing"),
    "not whole words": (SOUND[:-3], "framing"),
    "cut": (SOUND[:-8], "truncated"),
    "trailing": (SOUND + bytes(8), "framing"),
    "a million segments": (struct.pack("<II", 999_999, 1) + bytes(64), "framing"),
    "an empty first segment": (message(), "bounds"),
    "no root": (message(0), "type"),
    "a root outside": (message(struct_pointer(4, 2, 1), 0, 0, 0), "bounds"),
    "a root before": (message(struct_pointer(-5, 2, 1), 0, 0, 0), "bounds"),
    "a list as root": (message(list_pointer(0, 5, 3), 0, 0, 0), "type"),
    "a newer member": (event(153, 0), "unknown member"),
    "a struct outside": (event(CALIBRATION, struct_pointer(0, 2, 8)), "bounds"),
    "a huge list": (calibration(list_pointer(7, 4, HUGE)), "bounds"),
    "a huge text": (event(LOG, list_pointer(0, 2, HUGE)), "bounds"),
    "a huge void list": (calibration(list_pointer(7, 0, HUGE)), "type"),
    "doubles for floats": (calibration(list_pointer(7, 5, 0)), "type"),
    "a struct for floats": (calibration(struct_pointer(7, 0, 0)), "type"),
    "a list for a struct": (model(list_pointer(16, 4, 0)), "type"),
    "a capability": (calibration(3), "type"),
    "a struct in itself": (model(*[0] * 8, struct_pointer(-9, 0, 17)), "loop"),
    "a billion empty structs": (
        event(
            MODEL,
            struct_pointer(0, 0, 17),
            *[0] * 4,
            list_pointer(12, 7, 0),
            *[0] * 12,
            struct_pointer(HUGE, 0, 0),
        ),
        "loop",
    ),
    "a list longer than its words": (
        event(
            MODEL,
            struct_pointer(0, 0, 17),
            *[0] * 4,
            list_pointer(12, 7, 7),
            *[0] * 12,
            struct_pointer(2, 0, 7),
            *[0] * 7,
        ),
        "bounds",
    ),
    "text without its zero": (event(LOG, list_pointer(0, 2, 2), 0x4141), "text"),
    "text in no encoding": (event(LOG, list_pointer(0, 2, 3), 0x00FFFE), "text"),
    "a far segment": (event(CALIBRATION, far_pointer(7, 0)), "bounds"),
    "a far word": (event(CALIBRATION, far_pointer(1, 9), segments=((0,),)), "bounds"),
    "a far chain": (
        event(CALIBRATION, far_pointer(1, 0), segments=((far_pointer(0, 0),),)),
        "bounds",
    ),
    "a double far astray": (
        event(CALIBRATION, far_pointer(1, 0, double=True), segments=((0, 0),)),
        "bounds",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_by_name(name: str) -> None:
    content, reason = CASES[name]
    with pytest.raises(MessageError) as refused:
        decode_event(content)
    assert refused.value.reason == reason
    assert "\n" not in str(refused.value)


def test_sharing_is_refused_before_it_multiplies() -> None:
    # Each level points twice to the next: 2^40 structs in 80 words for whoever walks them.
    levels = [struct_pointer(1, 0, 2), struct_pointer(0, 0, 2)] * 40
    with pytest.raises(MessageError) as refused:
        decode_event(event(11, struct_pointer(0, 0, 2), *levels, 0, 0))
    assert refused.value.reason == "loop"


def test_deep_nesting_is_refused() -> None:
    chain = [struct_pointer(0, 0, 1)] * 100
    with pytest.raises(MessageError, match="nest deeper than 64"):
        decode_event(event(11, struct_pointer(0, 0, 1), *chain, 0))


def test_far_pointers_are_followed() -> None:
    far = event(
        CALIBRATION,
        far_pointer(1, 0),
        segments=((struct_pointer(0, 2, 8), 100 << 32, *[0] * 9),),
    )
    assert decode_event(far).extrinsicsCalibration.calCycle == 100
    double = event(
        CALIBRATION,
        far_pointer(1, 0, double=True),
        segments=((far_pointer(2, 0), struct_pointer(0, 2, 8)), (100 << 32, *[0] * 9)),
    )
    assert decode_event(double).extrinsicsCalibration.calCycle == 100


def test_unknown_trailing_fields_are_a_newer_sender_not_an_error() -> None:
    # A ninth pointer of extrinsicsCalibration, which leads to a text.
    grown = event(CALIBRATION, struct_pointer(0, 2, 9), 0, 0, *[0] * 8, list_pointer(0, 2, 2), 0x41)
    assert list(decode_event(grown).extrinsicsCalibration.rpyCalib) == []
    broken = event(CALIBRATION, struct_pointer(0, 2, 9), 0, 0, *[0] * 8, list_pointer(0, 2, 99))
    with pytest.raises(MessageError):
        decode_event(broken)


@pytest.mark.parametrize("name", ["modelV2", "cameraOdometry"])
def test_real_messages_pass(name: str, data_path: Callable[[str], Path]) -> None:
    content = data_path(f"logs/messages/{name}.raw").read_bytes()
    assert decode_event(content).which() == name


def read_everything(reader: Any, schema: Any) -> None:
    for name, field in schema.fields.items():
        if str(field.proto.which()) == "group" or name in schema.union_fields:
            continue
        value = getattr(reader, name)
        kind = str(field.proto.slot.type.which())
        if kind == "struct":
            read_everything(value, field.schema)
        elif kind == "list":
            list(value)


def seed_messages() -> list[bytes]:
    clock = FakeClock()
    device = new_event("deviceState", clock)
    device.deviceState.networkInfo.technology = "lte"
    device.deviceState.init("thermalZones", 2)[1].name = "cpu0"
    car = new_event("carState", clock)
    car.carState.init("buttonEvents", 2)[0].pressed = True
    where = new_event("extrinsicsCalibration", clock)
    where.extrinsicsCalibration.rpyCalib = [0.0, 0.1, 0.2]
    health = new_event("modeldHealth", clock)
    health.modeldHealth.verdictReasons = ["one", "two"]
    health.modeldHealth.init("stages", 3)[0].name = "warp"
    return [event.to_bytes() for event in (device, car, where, health)]


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(seed_messages()),
    st.lists(st.tuples(st.integers(0, 2**32), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_a_damaged_message_is_refused_or_can_be_read_whole(
    content: bytes, damage: list[tuple[int, int]]
) -> None:
    damaged = bytearray(content)
    for at, value in damage:
        damaged[at % len(damaged)] = value
    try:
        found = decode_event(bytes(damaged))
    except MessageError:
        return
    member = found.which()
    field = found.schema.fields[member]
    if str(field.proto.slot.type.which()) == "struct":
        read_everything(getattr(found, member), field.schema)
    # Ends the process on a bad pointer, with pycapnp 2.2; sound messages have none.
    found.as_builder()


def verdict(checker: Checker, content: bytes) -> str:
    try:
        checker.check(content)
    except MessageError as error:
        return error.reason
    return "sound"


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(seed_messages()),
    st.lists(st.tuples(st.integers(0, 2**32), st.integers(0, 255)), max_size=4),
)
def test_what_passed_before_changes_no_verdict(
    content: bytes, damage: list[tuple[int, int]]
) -> None:
    damaged = bytearray(content)
    for at, value in damage:
        damaged[at % len(damaged)] = value
    primed = Checker()
    primed.check(content)
    expected = verdict(Checker(), bytes(damaged))
    assert verdict(primed, bytes(damaged)) == expected
    # And again, if it was just remembered itself.
    assert verdict(primed, bytes(damaged)) == expected


def test_a_pass_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = Checker()
    event = new_event("carState", FakeClock())
    checker.check(event.to_bytes())
    event.clear_write_flag()
    event.carState.vEgo = 12.5
    monkeypatch.setattr(validate, "_Walk", None)
    checker.check(event.to_bytes())


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused(content: bytes) -> None:
    with pytest.raises(MessageError):
        decode_event(content)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(seed_messages()), st.data())
def test_every_truncation_is_refused(content: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(MessageError) as refused:
        decode_event(content[:cut])
    assert refused.value.reason in ("empty", "framing", "truncated")
