import struct
from pathlib import Path

import pytest

from modeld.wake_latency import WakeLatency, bounded_wake_latency


def bounds(device: Path) -> list[int]:
    return [value for (value,) in struct.iter_unpack("=i", device.read_bytes())]


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "cpu_dma_latency"
    path.touch()
    return path


def test_no_processor_sleeps_inside_and_any_may_outside(device: Path) -> None:
    awake = bounded_wake_latency(device)
    assert isinstance(awake, WakeLatency)
    assert bounds(device) == []
    for turn in range(3):
        with awake:
            assert bounds(device)[2 * turn :] == [0]
    assert bounds(device) == [0, 2_000_000_000] * 3


def test_the_bound_is_lifted_when_a_turn_fails(device: Path) -> None:
    with pytest.raises(KeyError), bounded_wake_latency(device):
        raise KeyError
    assert bounds(device)[-1] == 2_000_000_000


def test_the_device_is_closed_with_its_last_user(device: Path) -> None:
    def still_open() -> bool:
        links = Path("/proc/self/fd").iterdir()
        return str(device) in {str(link.readlink()) for link in links if link.is_symlink()}

    awake = bounded_wake_latency(device)
    assert still_open()
    del awake
    assert not still_open()


@pytest.mark.parametrize("name", ["missing", "folder"])
def test_what_may_not_be_written_is_done_without(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    awake = bounded_wake_latency(tmp_path / name)
    for _ in range(2):
        with awake:
            pass
