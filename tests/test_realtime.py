import gc
import os
from collections.abc import Iterator

import pytest

from modeld.realtime import RealtimeConfig, enter_realtime


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    cores, policy = os.sched_getaffinity(0), os.sched_getscheduler(0)
    yield
    os.sched_setaffinity(0, cores)
    os.sched_setscheduler(0, policy, os.sched_param(0))
    gc.unfreeze()
    gc.enable()


def test_collector_is_off_even_without_permissions() -> None:
    assert enter_realtime(RealtimeConfig()) == []
    assert not gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_core_is_taken() -> None:
    core = min(os.sched_getaffinity(0))
    assert enter_realtime(RealtimeConfig(cores=(core,))) == []
    assert os.sched_getaffinity(0) == {core}


def test_what_is_not_permitted_is_named_and_the_rest_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    core = min(os.sched_getaffinity(0))
    (problem,) = enter_realtime(RealtimeConfig(priority=54, cores=(core,)))
    assert problem.startswith("FIFO priority 54 not permitted (Operation not permitted)")
    assert os.sched_getaffinity(0) == {core}
    monkeypatch.undo()


def test_core_and_priority_that_do_not_exist_are_named() -> None:
    problems = enter_realtime(RealtimeConfig(priority=1000, cores=(4000,)))
    assert [p.split(" (")[0] for p in problems] == [
        "FIFO priority 1000 not permitted",
        "cores [4000] not available",
    ]


def test_priority_is_fifo_where_permitted() -> None:
    problems = enter_realtime(RealtimeConfig(priority=5))
    if problems:
        pytest.skip(problems[0])
    assert os.sched_getscheduler(0) == os.SCHED_FIFO
    assert os.sched_getparam(0).sched_priority == 5
