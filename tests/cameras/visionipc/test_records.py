"""The layouts were confirmed on the wire of msgq (0e266c1, and a16cf1f for 136 bytes)."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.cameras.frame import FrameLayout
from modeld.cameras.visionipc.records import (
    MAX_BUFFERS,
    PACKET_BYTES,
    RECORD_BYTES,
    BufferRecord,
    Packet,
    pack_records,
    unpack_records,
)
from modeld.errors import ModeldError

# The comma three's road camera as camerad allocates it.
LAYOUT = FrameLayout(width=1928, height=1208, stride=2048, uv_offset=2048 * 1216)
RECORD = BufferRecord(2346 * 2048, LAYOUT, 0xFEDCBA9876543210, 0, 2)
OFFSETS = {
    "length": (0, "<Q"),
    "mapped": (8, "<Q"),
    "width": (40, "<Q"),
    "height": (48, "<Q"),
    "stride": (56, "<Q"),
    "uv_offset": (64, "<Q"),
    "server": (88, "<Q"),
    "index": (96, "<Q"),
    "stream": (104, "<I"),
    "handle": (108, "<i"),
}


def altered(**values: int) -> bytes:
    data = bytearray(pack_records((RECORD,)))
    for name, value in values.items():
        offset, kind = OFFSETS[name]
        struct.pack_into(kind, data, offset, value)
    return bytes(data)


def test_a_record_has_each_field_at_its_place() -> None:
    data = pack_records((RECORD,))
    found = {name: struct.unpack_from(kind, data, at)[0] for name, (at, kind) in OFFSETS.items()}
    assert len(data) == 112
    assert found == {
        "length": 4804608,
        "mapped": 4804616,
        "width": 1928,
        "height": 1208,
        "stride": 2048,
        "uv_offset": 2490368,
        "server": 0xFEDCBA9876543210,
        "index": 0,
        "stream": 2,
        "handle": 0,
    }


@pytest.mark.parametrize("size", RECORD_BYTES)
def test_both_layouts_are_read_by_the_size_of_the_answer(size: int) -> None:
    records = tuple(replace(RECORD, index=index) for index in range(18))
    packed = pack_records(records)
    padded = [packed[i * 112 : i * 112 + 108] + bytes([255]) * (size - 108) for i in range(18)]
    assert unpack_records(b"".join(padded), 18) == records


def test_a_packet_has_each_field_at_its_place() -> None:
    packet = Packet(0xFEDCBA9876543210, 17, 0xFFFFFFFF, 2**63, 2**64 - 1, True)
    data = packet.pack()
    assert len(data) == PACKET_BYTES == 48
    assert struct.unpack_from("<QQ", data) == (0xFEDCBA9876543210, 17)
    assert struct.unpack_from("<I", data, 16) == (0xFFFFFFFF,)
    assert struct.unpack_from("<QQB", data, 24) == (2**63, 2**64 - 1, 1)
    assert Packet.unpack(data) == packet


def test_what_msgq_leaves_in_the_padding_of_a_packet_is_ignored() -> None:
    packet = Packet(1, 2, 3, 4, 5, False)
    data = bytearray(packet.pack())
    data[20:24] = data[41:48] = b"\xff" * 4
    assert Packet.unpack(bytes(data[:48]).ljust(48, b"\xff")) == packet


@pytest.mark.parametrize(
    ("data", "descriptors", "message"),
    [
        (b"", 0, "0 file descriptors with 0 bytes"),
        (bytes(112), 0, "0 file descriptors with 112 bytes"),
        (bytes(112 * 128), 128, "128 file descriptors .* 1 to 127"),
        (altered() * 2, 1, "224 bytes for 1 buffers"),
        (altered() * 2, 3, "224 bytes for 3 buffers"),
        (bytes(120 * 18), 18, "2160 bytes for 18 buffers; known .* 112 or 136"),
        (altered(length=0), 1, "0 of 4804616 bytes"),
        (altered(length=2**40, mapped=2**41), 1, "impossible for NV12"),
        (altered(mapped=4804615), 1, "4804608 of 4804615 bytes"),
        (altered(width=0), 1, "0x1208 pixels"),
        (altered(width=2049), 1, "2049x1208 pixels, stride 2048"),
        (altered(height=0), 1, "1928x0 pixels"),
        (altered(height=2**63), 1, "impossible for NV12"),
        (altered(stride=2**40), 1, "impossible for NV12"),
        (altered(uv_offset=2048 * 1208 - 1), 1, "chroma at 2473983"),
        (altered(uv_offset=4804608 - 2048 * 604 + 1), 1, "chroma at 3567617"),
        (altered(index=1), 1, "describes buffer 0 as number 1"),
        (altered() + altered(index=1, server=1), 2, "buffers of several servers"),
    ],
)
def test_impossible_answers_are_named(data: bytes, descriptors: int, message: str) -> None:
    with pytest.raises(ModeldError, match=message):
        unpack_records(data, descriptors)


def test_the_largest_chroma_offset_that_fits_is_accepted() -> None:
    (record,) = unpack_records(altered(uv_offset=4804608 - 2048 * 604), 1)
    assert record.layout.bytes == record.length


@given(st.integers(0, MAX_BUFFERS + 2), st.sampled_from(RECORD_BYTES), st.data())
def test_garbage_is_refused_or_describes_buffers_that_hold_their_pictures(
    descriptors: int, size: int, data: st.DataObject
) -> None:
    base = bytearray(b"".join(altered(index=i).ljust(size, b"\0") for i in range(descriptors)))
    for _ in range(data.draw(st.integers(0, 4)) if base else 0):
        at = data.draw(st.integers(0, len(base) // 8 - 1)) * 8
        struct.pack_into("<Q", base, at, data.draw(st.integers(0, 2**64 - 1)))
    try:
        records = unpack_records(bytes(base), descriptors)
    except ModeldError as error:
        assert "\n" not in str(error)
        return
    for record in records:
        layout = record.layout
        assert layout.width <= layout.stride
        assert layout.stride * layout.height <= layout.uv_offset
        assert layout.uv_offset + layout.stride * (layout.height // 2) <= record.length <= 2**30
