"""Processes that work for a command, when the command is ended from outside."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEGIN = """
import sys, time
from compile.device import use_device
from modeld.command_line import run_guarded

def in_tinygrads_pool():
    from tinygrad.engine.worker import get_worker_pool, terminate_worker_pool

    pool = get_worker_pool()
    try:
        for _ in pool.imap(time.sleep, [0, 0, 60]):  # one worker waits for work, one works
            print("working", flush=True)
    except KeyboardInterrupt:  # as tinygrad does
        terminate_worker_pool()
        raise
    return 0

def in_an_executor():
    from concurrent.futures import ProcessPoolExecutor
    from compile.workers import WorkerContext

    pool = ProcessPoolExecutor(2, WorkerContext())
    futures = [pool.submit(time.sleep, seconds) for seconds in (0, 0, 1)]
    for future in futures[:2]:
        future.result()
    print("working", flush=True)
    futures[2].result()
    time.sleep(60)
    return 0

def while_one_starts():
    import os, signal
    from tinygrad.engine import worker

    def start_and_stop(process):
        started = start(process)
        os.kill(os.getpid(), signal.SIGTERM)
        return started

    start = worker._WorkerProcess._Popen
    worker._WorkerProcess._Popen = staticmethod(start_and_stop)
    print("working", flush=True)
    worker.get_worker_pool()
    return 0

actions = {"pool": in_tinygrads_pool, "executor": in_an_executor, "starting": while_one_starts}
sys.exit(run_guarded("demo", actions[sys.argv[1]]))
"""


def begun(kind: str) -> "subprocess.Popen[str]":
    """A process in a group of its own with two workers, one of which is working."""
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN, kind],
        cwd=ROOT,
        env={**os.environ, "PARALLEL": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    return process


def wait_for_the_last_of(group: int) -> None:
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("processes of the group live on")


@pytest.mark.parametrize("kind", ["pool", "executor"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_processes_ends_all(number: signal.Signals, kind: str) -> None:
    with begun(kind) as process:
        os.killpg(process.pid, number)
        _, told = process.communicate(timeout=20)
    assert (process.returncode, told) == (128 + number, f"demo: stopped by {number.name}\n")
    wait_for_the_last_of(process.pid)


def test_a_signal_while_a_worker_starts_leaves_none() -> None:
    with begun("starting") as process:
        _, told = process.communicate(timeout=20)
    assert (process.returncode, told) == (128 + signal.SIGTERM, "demo: stopped by SIGTERM\n")
    wait_for_the_last_of(process.pid)


@pytest.mark.parametrize("kind", ["pool", "executor"])
def test_workers_end_with_a_killed_parent(kind: str) -> None:
    with begun(kind) as process:
        process.kill()
    wait_for_the_last_of(process.pid)
