"""Filling the driver's cache from other processes: every program once, and never an obstacle."""

import pyopencl as cl
import pytest

from compile import prebuild as module
from compile.capture import Capture, Launch, Operand, Storage
from compile.prebuild import prebuild
from modeld.opencl import select_device

SOURCE = "__kernel void fill(__global int* a, __global const int* b) { a[get_global_id(0)] = 7; }"


def launch(source: str, kernel: str = "fill", local: tuple[int, ...] | None = (4,)) -> Launch:
    operands = (Operand(0, 0, 64, "write"), Operand(1, 0, 64, "read"))
    return Launch(source, kernel, (16,), local, operands, "")


def capture(*launches: Launch) -> Capture:
    return Capture(launches, (Storage("scratch", "", 64), Storage("scratch", "", 64)), {})


def test_each_program_and_group_size_is_one_task() -> None:
    given = capture(launch(SOURCE), launch(SOURCE), launch(SOURCE, local=(8,)), launch("other"))
    tasks = module._tasks(given, 0)
    assert [(t.source, t.local_size) for t in tasks] == [
        (SOURCE, (4,)),
        (SOURCE, (8,)),
        ("other", (4,)),
    ]
    assert tasks[0].argument_bytes == (64, 64)


def test_worker_launches_and_skips_what_cannot_be_built() -> None:
    tasks = module._tasks(
        capture(launch("no OpenCL"), launch(SOURCE, "absent"), launch(SOURCE)), device=0
    )
    module._build(tasks)
    assert list(module._queues) == [0]


def test_all_programs_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pool:
        def imap_unordered(self, function, pieces):  # type: ignore[no-untyped-def]
            self.seen = [task for piece in pieces for task in piece]
            return Results(len(pieces))

    class Results:
        def __init__(self, count: int) -> None:
            self.left = count

        def next(self, timeout: float) -> None:
            self.left -= 1
            assert self.left >= 0

    pool, told = Pool(), []
    monkeypatch.setattr(module, "workers", lambda: pool)
    monkeypatch.setattr(module, "_SHARING_PLATFORMS", (select_device().platform.name,))
    launches = [launch(SOURCE + " " * n) for n in range(8)]
    prebuild(capture(*launches), select_device(), lambda done, total: told.append((done, total)))
    assert sorted(len(t.source) for t in pool.seen) == [len(SOURCE) + n for n in range(8)]
    assert told == [(0, 8), (3, 8), (6, 8)]


def test_dead_worker_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pool:
        def imap_unordered(self, function, pieces):  # type: ignore[no-untyped-def]
            return self

        def next(self, timeout: float) -> None:
            raise module.multiprocessing.TimeoutError

    monkeypatch.setattr(module, "workers", Pool)
    monkeypatch.setattr(module, "_SHARING_PLATFORMS", (select_device().platform.name,))
    launches = [launch(SOURCE + " " * n) for n in range(8)]
    prebuild(capture(*launches), select_device(), lambda done, total: None)


def test_drivers_without_a_shared_cache_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pool() -> None:
        raise AssertionError("no worker is wanted")

    monkeypatch.setattr(module, "workers", no_pool)
    monkeypatch.setattr(module, "_SHARING_PLATFORMS", ())
    device: cl.Device = select_device()
    prebuild(capture(*[launch(SOURCE)] * 9), device, lambda done, total: None)
