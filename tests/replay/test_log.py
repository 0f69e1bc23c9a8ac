"""Logs: every form read, damage told, strangers carried through untouched."""

import bz2
import logging
import random
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from modeld.errors import ModeldError
from modeld.fakes.clock import FakeClock
from modeld.messaging import new_event
from modeld.replay.log import LogWriter, read_events, read_messages

DataPath = Callable[[str], Path]

SUFFIXES = ("", ".zst", ".bz2")


def drive(count: int) -> list[bytes]:
    clock = FakeClock()
    messages = []
    for index in range(count):
        clock.advance(10_000_000)
        event = new_event("carState", clock, valid=True)
        event.carState.vEgo = index / 8
        messages.append(event.to_bytes())
    return messages


DRIVE = drive(300)
RAW = b"".join(DRIVE)

# A message of a schema that does not exist yet: member 5000, in two segments, with a list.
STRANGER = struct.pack(
    "<4I6Q",
    *(1, 4, 2, 0),
    *(2 << 32 | 1 << 48, 77, 5000, 2 | 1 << 32),
    *(1 | 5 << 32 | 1 << 35, 0xDEADBEEF),
)


def write(path: Path, messages: list[bytes]) -> Path:
    with LogWriter(path) as log:
        for message in messages:
            log.write(message)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"rlog{suffix}", DRIVE)
    assert list(read_messages(path)) == DRIVE
    events = list(read_events(path))
    assert [event.carState.vEgo for event in events] == [index / 8 for index in range(300)]


def test_others_can_read_what_is_written(tmp_path: Path) -> None:
    zst, bz2_, raw = (write(tmp_path / f"rlog{s}", DRIVE).read_bytes() for s in SUFFIXES[::-1])
    assert bz2.decompress(zst) == zstandard.ZstdDecompressor().decompressobj().decompress(bz2_)
    assert raw == RAW


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_form_is_told_by_content_not_by_name(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"rlog{suffix}", DRIVE).rename(tmp_path / "drive.txt")
    assert list(read_messages(path)) == DRIVE


def test_builders_are_written_too(tmp_path: Path) -> None:
    event = new_event("deviceState", FakeClock(), valid=True)
    with LogWriter(tmp_path / "log.zst") as log:
        log.write(event)
    (read,) = read_events(tmp_path / "log.zst")
    assert read.which() == "deviceState"


@pytest.mark.parametrize("compress", [bz2.compress, zstandard.ZstdCompressor().compress])
def test_streams_joined_end_to_end_are_one_log(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "rlog"
    path.write_bytes(compress(RAW[: len(DRIVE[0])]) + compress(RAW[len(DRIVE[0]) :]))
    assert list(read_messages(path)) == DRIVE


def test_a_stranger_survives_byte_for_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "in.zst", [DRIVE[0], STRANGER, DRIVE[1]])
    with LogWriter(tmp_path / "out.bz2") as log:
        for message in read_messages(path):
            if message != DRIVE[0]:
                log.write(message)
    assert list(read_messages(tmp_path / "out.bz2")) == [STRANGER, DRIVE[1]]
    assert [event.logMonoTime for event in read_events(path)][1] == 77


def test_reserved_members_survive_a_filter_of_a_real_log(
    tmp_path: Path, data_path: DataPath
) -> None:
    source = data_path("logs/process_replay/segment_controlsd.bz2")
    kept = tmp_path / "kept.zst"
    with LogWriter(kept) as log:
        for message, event in zip(read_messages(source), read_events(source), strict=True):
            if event.which() != "controlsState":
                log.write(message)
    assert Counter(event.which() for event in read_events(kept)) == {
        "reserved17": 5994,
        "carState": 5994,
        "carControl": 5994,
        "reserved68": 71,
        "carParams": 2,
    }
    original = [
        message
        for message, event in zip(read_messages(source), read_events(source), strict=True)
        if event.which().startswith("reserved")
    ]
    survived = [
        message
        for message, event in zip(read_messages(kept), read_events(kept), strict=True)
        if event.which().startswith("reserved")
    ]
    assert survived == original


def test_every_real_log_is_counted_whole(data_path: DataPath) -> None:
    folder = data_path("logs/process_replay")
    counts = {path.name: sum(1 for _ in read_events(path)) for path in folder.glob("*.bz2")}
    assert len(counts) == 11
    assert counts.pop("segment_controlsd.bz2") == 24_049
    assert counts.pop("segment1_calibrationd.bz2") == 237
    assert counts.pop("segment5_calibrationd.bz2") == 241
    assert set(counts.values()) == {240}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SUFFIXES), st.floats(0.02, 0.999))
def test_a_cut_log_keeps_everything_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, part: float
) -> None:
    path = write(tmp_path_factory.mktemp("cut") / f"rlog{suffix}", DRIVE)
    content = path.read_bytes()
    path.write_bytes(content[: max(1, int(len(content) * part))])
    try:
        found = list(read_messages(path))
    except ModeldError as error:
        # Compressors work in blocks; with the first one cut there is nothing to keep.
        assert suffix and "is no log" in str(error)
        return
    assert found == DRIVE[: len(found)]
    if not suffix:
        assert len(found) == int(len(content) * part) // len(DRIVE[0])


def test_a_cut_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "rlog"
    path.write_bytes(RAW[:-20])
    assert list(read_messages(path)) == DRIVE[:-1]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{path}: the last message is cut off after {len(DRIVE[0]) - 20} bytes; the " in (
        record.getMessage()
    )


def test_a_cut_compressed_stream_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Flushed in the middle, as by a logger: all messages are there, the stream has no end.
    compressor = zstandard.ZstdCompressor().compressobj()
    content = compressor.compress(RAW) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    path = tmp_path / "rlog.zst"
    path.write_bytes(content)
    assert list(read_messages(path)) == DRIVE
    assert "the compressed stream ends early" in caplog.text


@pytest.mark.parametrize("suffix", SUFFIXES[1:])
def test_damage_inside_keeps_what_stands_before(
    tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Noise in hexadecimal, so that it is many blocks, and blocks that can tell damage.
    noise = random.Random(7)
    messages = [
        struct.pack("<II", 0, 25) + noise.randbytes(100).hex().encode() for _ in range(10_000)
    ]
    path = write(tmp_path / f"rlog{suffix}", messages)
    content = bytearray(path.read_bytes())
    at = len(content) * 3 // 4
    content[at : at + 64] = bytes(64)
    path.write_bytes(content)
    found = list(read_messages(path))
    # No more is lost than the block that is damaged, at most 900 kB of them.
    assert len(messages) * 3 // 4 - 4400 < len(found) <= len(messages) * 3 // 4
    assert found == messages[: len(found)]
    assert "are kept" in caplog.text


def test_an_impossible_header_ends_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rlog"
    path.write_bytes(RAW + struct.pack("<II", 0, 1 << 31) + RAW)
    assert list(read_messages(path)) == DRIVE
    assert "a message claims 17179869192 bytes" in caplog.text


def test_a_broken_message_is_left_out_of_the_events(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Its root pointer leads outside the message.
    broken = struct.pack("<IIQQ", 0, 2, 50 << 2 | 2 << 32 | 1 << 48, 0)
    path = write(tmp_path / "rlog", [DRIVE[0], broken, DRIVE[1]])
    assert [event.carState.vEgo for event in read_events(path)] == [0.0, 0.125]
    assert f"left out a message at byte {len(DRIVE[0])} (" in caplog.text
    assert len(caplog.records) == 1


# A header without a message, as zeros are.
NOTHING = bytes(8)


def test_many_broken_messages_are_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "rlog.zst", [DRIVE[0], *[NOTHING] * 900, DRIVE[1]] * 2)
    assert len(list(read_events(path))) == 4
    lines = caplog.text.splitlines()
    assert len(lines) == 4
    assert f"left out a message at byte {len(DRIVE[0]) + 16} (" in lines[2]
    assert "left out 1800 messages in all" in lines[3]


def test_an_end_of_zeros_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "rlog"
    path.write_bytes(RAW)
    with path.open("r+b") as stream:
        stream.truncate(1 << 30)
    assert len(list(read_events(path))) == len(DRIVE)
    lines = caplog.text.splitlines()
    assert len(lines) == 4
    place = len(RAW) + 999 * 8
    assert f"1000 messages in a row, up to byte {place}, cannot be read" in lines[3]


@pytest.mark.parametrize("count", [1, 1 << 27])
def test_a_log_of_zeros_is_no_log(tmp_path: Path, count: int) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as stream:
        stream.truncate(8 * count)
    with pytest.raises(ModeldError, match=r"huge is no log \(not one of its first \d+ messages"):
        list(read_events(path))


@pytest.mark.parametrize(
    "content", [b"no log at all, but a text", b"\x28\xb5\x2f\xfdgarbage", b"BZh9garbage" * 9]
)
def test_what_is_no_log_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ModeldError, match=r"notes.txt is no log \(.*\); give an rlog or qlog"):
        list(read_messages(path))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_log_is_called_empty(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"rlog{suffix}", [])
    with pytest.raises(ModeldError, match=r"is empty; give an rlog or qlog"):
        list(read_messages(path))
    path.write_bytes(b"")
    with pytest.raises(ModeldError, match=r"is empty; give an rlog or qlog"):
        list(read_events(path))


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match=r"rlog cannot be read \(No such file"):
        list(read_messages(tmp_path / "rlog"))
    with (
        pytest.raises(ModeldError, match=r"rlog cannot be written \(No such file"),
        LogWriter(tmp_path / "nowhere" / "rlog"),
    ):
        pytest.fail("opened")


def test_a_failed_writer_leaves_the_old_log(tmp_path: Path) -> None:
    path = write(tmp_path / "rlog.zst", DRIVE[:3])

    def fail() -> None:
        with LogWriter(path) as log:
            log.write(DRIVE[0])
            raise RuntimeError("out of road")

    with pytest.raises(RuntimeError, match="out of road"):
        fail()
    assert list(read_messages(path)) == DRIVE[:3]
    assert list(tmp_path.iterdir()) == [path]


def test_writing_outside_the_block_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="use it in a with block"):
        LogWriter(tmp_path / "rlog").write(DRIVE[0])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_memory_is_constant(tmp_path: Path, suffix: str) -> None:
    # The same megabytes again and again: compressed, a few bytes stand for all of them.
    message = struct.pack("<II", 0, 1 << 12) + random.Random(7).randbytes(8 << 12)
    # (bzip2 is slow to pack them.)
    copies = 128 if suffix == ".bz2" else 1024
    path = write(tmp_path / f"rlog{suffix}", [message * 8] * (copies // 8))
    tracemalloc.start()
    try:
        count = sum(message == read for read in read_messages(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == copies
    assert peak < 8 << 20


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match="Is a directory"), LogWriter(tmp_path):
        pass
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []
