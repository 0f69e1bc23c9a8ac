"""Programs compiled by other processes are whole; whatever befalls those, nothing is lost."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest
from toy_artifact import SIZE, WEIGHT, write_toy

from modeld import Executor, compiling, open_artifact
from modeld.compiler_process import compile_binary, read_block, write_block
from modeld.compiling import compile_together
from modeld.opencl import select_device

COUNT = 7


def source(number: int) -> bytes:
    text = "__kernel void fill(__global int* out) { out[get_global_id(0)] = %d; }"
    return (text % number).encode()


SOURCES = {f"{number}.cl": source(number) for number in range(COUNT)}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> cl.Device:
    device = select_device()
    monkeypatch.setattr(compiling, "_PLATFORMS", (device.platform.name,))
    return device


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that were started."""
    processes: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args, **kwargs) -> None:  # type: ignore[no-untyped-def]
            super().__init__(*args, **kwargs)
            processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    return processes


def run_binary(device: cl.Device, binary: bytes) -> list[int]:
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, [device], [binary]).build(), "fill")
    out = np.zeros(4, np.int32)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, out.nbytes)
    kernel.set_args(buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, (4,), None)
    cl.enqueue_copy(queue, out, buffer)
    return [int(value) for value in out]


def test_every_binary_is_its_sources(
    device: cl.Device, started: list[subprocess.Popen[bytes]]
) -> None:
    told: list[tuple[int, int]] = []
    broken = {**SOURCES, "broken.cl": b"no OpenCL"}
    binaries = compile_together(device, broken, "", lambda *progress: told.append(progress))
    assert binaries.keys() == SOURCES.keys()
    for number in (0, COUNT - 1):
        assert run_binary(device, binaries[f"{number}.cl"]) == [number] * 4
    assert told == sorted(told)
    assert {total for _, total in told} == {COUNT + 1}
    assert all(process.poll() is not None for process in started)


def test_few_programs_and_other_drivers_start_no_process(
    device: cl.Device,
    started: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert compile_together(device, {"a.cl": source(0)}, "") == {}
    monkeypatch.setattr(compiling, "_PLATFORMS", ())
    assert compile_together(device, SOURCES, "") == {}
    assert not started


# What stands in for a compiling process: dies, speaks out of turn, or stops in mid-word.
BROKEN_PROCESSES = {
    "dead": "",
    "dead after one": (
        "import sys; i = sys.stdin.buffer; i.read(int.from_bytes(i.read(8), 'little'));"
        "sys.stdout.buffer.write((3).to_bytes(8, 'little') + b'one')"
    ),
    "half an answer": "print('0' * 7)",
    "huge": "import sys; sys.stdout.buffer.write(b'\\xff' * 8)",
}


@pytest.mark.parametrize("kind", BROKEN_PROCESSES)
def test_processes_that_fail_only_cost_their_programs(
    device: cl.Device,
    started: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    command = [sys.executable, "-c", BROKEN_PROCESSES[kind]]
    monkeypatch.setattr(compiling, "_command", lambda position, options: command)
    binaries = compile_together(device, SOURCES, "")
    assert set(binaries.values()) == ({b"one"} if kind == "dead after one" else set())
    assert len(binaries) < COUNT
    assert all(process.poll() is not None for process in started)


def test_interrupt_ends_the_processes(
    device: cl.Device, started: list[subprocess.Popen[bytes]]
) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_together(device, SOURCES, "", interrupt)
    assert started
    assert all(process.poll() is not None for process in started)


@pytest.mark.parametrize("binary", [None, b"", b"of another driver"])
def test_executor_compiles_what_others_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binary: bytes | None
) -> None:
    def compile_nothing(device: cl.Device, sources: dict[str, bytes], options: str) -> object:
        return {} if binary is None else dict.fromkeys(sources, binary)

    monkeypatch.setattr("modeld.programs.compile_together", compile_nothing)
    write_toy(tmp_path / "toy")
    executor = Executor(open_artifact(tmp_path / "toy"))
    outputs = executor.run("run_model", {"x": np.ones(SIZE, np.float32)})
    np.testing.assert_array_equal(outputs["y"], WEIGHT)


def test_source_that_does_not_compile_gives_no_binary() -> None:
    context = cl.Context([select_device()])
    assert compile_binary(context, b"no OpenCL", "") == b""
    assert compile_binary(context, source(1), "")


def test_blocks_keep_their_bounds(tmp_path: Path) -> None:
    with (tmp_path / "pipe").open("w+b") as stream:
        for content in (b"", b"abc", bytes(70_000)):
            write_block(stream, content)
        stream.seek(0)
        assert [read_block(stream) for _ in range(4)] == [b"", b"abc", bytes(70_000), None]
