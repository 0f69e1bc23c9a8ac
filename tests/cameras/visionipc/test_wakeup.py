import os
import subprocess
import sys
import threading

import pytest

from modeld.cameras.visionipc import wakeup
from modeld.cameras.visionipc.wakeup import (
    expect_wakeups,
    survives_wakeup,
    thread_exists,
    wait_for_wakeup,
    wake,
)
from modeld.errors import ModeldError


def test_a_wakeup_before_the_wait_is_not_lost() -> None:
    expect_wakeups()
    wake(threading.get_native_id())
    assert wait_for_wakeup(0)
    assert not wait_for_wakeup(0)


def test_a_thread_is_woken_while_it_waits() -> None:
    ready, woken = threading.Event(), []
    waiter = 0

    def wait() -> None:
        nonlocal waiter
        expect_wakeups()
        waiter = threading.get_native_id()
        ready.set()
        woken.append(wait_for_wakeup(30))

    thread = threading.Thread(target=wait)
    thread.start()
    assert ready.wait(10)
    wake(waiter)
    thread.join(20)
    assert woken == [True]


def test_threads_that_are_gone_are_known_and_may_be_woken() -> None:
    ids: list[int] = []
    thread = threading.Thread(target=lambda: ids.append(threading.get_native_id()))
    thread.start()
    thread.join()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    for gone in (child.pid, 0, -1, 2**32 - 1):
        wake(gone)
        assert not thread_exists(gone)
    assert thread_exists(os.getpid())


def test_only_a_thread_that_expects_it_survives(sleeper: subprocess.Popen[bytes]) -> None:
    expect_wakeups()
    assert survives_wakeup(threading.get_native_id())
    assert not survives_wakeup(sleeper.pid)
    assert not survives_wakeup(2**31 - 1)


def test_an_unknown_cpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wakeup._tkill.cache_clear()
    monkeypatch.setattr(wakeup.platform, "machine", lambda: "pdp11")
    with pytest.raises(ModeldError, match=r"CPU 'pdp11': VisionIPC runs on aarch64, .* x86_64"):
        wake(1)
    wakeup._tkill.cache_clear()
