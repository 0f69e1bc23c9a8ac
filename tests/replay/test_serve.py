"""`modeld replay --serve` and a real daemon, two processes that know each other by sockets only."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from routes import write_route
from toy_driver import write_driver

from modeld.cli import main
from modeld.messaging import ZmqTransport
from modeld.opencl import describe_device, select_device
from modeld.replay.compare import SERVICES, TIMING_FIELDS, compare
from modeld.replay.log import read_events

GREYS = [40, 60, 80, 100, 120, 140]
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("driver")
    return folder, write_driver(folder, 1344, 760)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Serving takes over the signals of its process, which here is everybody's."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class Wire:
    """A prefix and a loopback address of its own for each test, and the daemon on them."""

    def __init__(self, folder: Path, driver: tuple[Path, str]) -> None:
        self.address = (
            f"127.{os.getpid() % 250 + 1}.{random.randrange(250)}.{random.randrange(250)}"
        )
        self.prefix = f"serve{os.getpid()}_{random.randrange(1 << 30)}"
        self.cache = str(folder / "cache")
        self.artifact = ["--artifact", str(driver[0]), "--cache", self.cache]
        self.log = folder / "daemon.log"
        flags = [*self.artifact, "--pin", driver[1], "--prefix", self.prefix]
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "modeld", "run", *flags, "--bind", self.address]
            command += ["--connect", self.address]
            self.daemon = subprocess.Popen(command, stdout=log, stderr=log)

    def flags(self, source: Path | str, *more: str) -> list[str]:
        where = ["--prefix", self.prefix, "--bind", self.address, "--connect", self.address]
        return ["replay", str(source), "--serve", *where, *more]

    def serve(self, source: Path | str, *more: str) -> int:
        return main(self.flags(source, *more))

    def inside(self, source: Path | str, *more: str) -> int:
        return main(["replay", str(source), *self.artifact, *more])

    def stop(self) -> str:
        self.daemon.send_signal(signal.SIGTERM)
        assert self.daemon.wait(PATIENCE_S) == 0
        return self.log.read_text()

    def close(self) -> None:
        if self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()


@pytest.fixture
def wire(tmp_path: Path, driver: tuple[Path, str]) -> Iterator[Wire]:
    wire = Wire(tmp_path, driver)
    yield wire
    wire.close()


def frames(log: Path, service: str = "modelV2") -> list[int]:
    return [getattr(e, service).frameId for e in read_events(log) if e.which() == service]


def answers(log: Path) -> list[tuple[int, int, bool, bytes]]:
    """The bytes of all answers in order of their frames, fields that tell of time spent at zero."""
    found = []
    for event in read_events(log):
        service = event.which()
        if service in SERVICES:
            built = event.as_builder()
            built.logMonoTime = 0
            content = getattr(built, service)
            for name in TIMING_FIELDS & set(content.schema.fieldnames):
                setattr(content, name, 0)
            found.append((content.frameId, SERVICES.index(service), event.valid, built.to_bytes()))
    return sorted(found)


def models(log: Path) -> list[Any]:
    return [event.modelV2 for event in read_events(log) if event.which() == "modelV2"]


def told(log: Path) -> list[bytes | str]:
    """What the log holds between its marks, of answers the name only."""
    events = [e for e in read_events(log) if e.which() not in ("initData", "sentinel")]
    return [e.which() if e.which() in SERVICES else e.as_builder().to_bytes() for e in events]


def agree(first: Path, second: Path) -> None:
    assert compare(read_events(first), read_events(second)).equal
    assert answers(first) == answers(second)


def test_a_route_is_answered_as_in_one_process(wire: Wire, tmp_path: Path) -> None:
    route = write_route(tmp_path, count=6)
    served, inside = tmp_path / "served.zst", tmp_path / "inside.zst"
    assert wire.serve(route, "--out", str(served)) == 0
    assert wire.inside(route, "--out", str(inside)) == 0
    for service in SERVICES:
        assert frames(served, service) == list(range(100, 106))
    agree(served, inside)
    # The log's own clock, in frames and messages.
    stamps = [e.modelV2.timestampEof for e in read_events(served) if e.which() == "modelV2"]
    assert stamps == [7_020_000_000 + n * 50_000_000 for n in range(6)]
    # What the daemon was told before each frame, to the byte.
    assert told(served) == told(inside)
    assert told(served).count("modelV2") == 6
    assert "6 frames answered, 0 dropped" in wire.stop()


def test_two_cameras(wire: Wire, tmp_path: Path) -> None:
    span = ("road:3", "--frames", "3", "--camera", "1344x760")
    served, inside = tmp_path / "served.zst", tmp_path / "inside.zst"
    assert wire.inside(*span, "--out", str(inside)) == 0
    # The comparison of the command itself decides its exit status.
    assert wire.serve(*span, "--speed", "max", "--out", str(served), "--compare", str(inside)) == 0
    agree(served, inside)
    extra = [e.modelV2.frameIdExtra for e in read_events(served) if e.which() == "modelV2"]
    assert extra == frames(served) == [0, 1, 2]
    assert told(served) == told(inside)
    in_place, copied = (6, 0) if describe_device(select_device()).host_memory else (0, 6)
    assert f"pictures for the device: {in_place} used in place, {copied} copied" in wire.stop()


def test_a_wide_camera_alone(wire: Wire, tmp_path: Path) -> None:
    route = write_route(tmp_path, count=4, camera="wide")
    served, inside = tmp_path / "served.zst", tmp_path / "inside.zst"
    assert wire.serve(route, "--out", str(served)) == 0
    assert wire.inside(route, "--out", str(inside)) == 0
    agree(served, inside)
    assert frames(served) == [100, 101, 102, 103]


def test_at_a_cameras_own_rhythm_nothing_is_waited_for(
    wire: Wire, clip: Callable[..., Path], tmp_path: Path
) -> None:
    log = tmp_path / "served.zst"
    assert wire.serve(clip(GREYS), "--camera", "1344x760", "--speed", "0.5", "--out", str(log)) == 0
    found = frames(log)
    assert found == sorted(set(found))
    assert found[-1] == 5  # the last answer is still heard


def test_a_killed_server_and_its_successor(
    wire: Wire, clip: Callable[..., Path], tmp_path: Path
) -> None:
    path = clip(GREYS)
    flags = wire.flags(f"loop:{path}", "--camera", "1344x760")
    first = subprocess.Popen([sys.executable, "-m", "modeld", *flags], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE_S
    with ZmqTransport(connect=wire.address) as transport:
        inbox = transport.inbox(["modelV2"])
        while inbox.receive("modelV2") is None:
            assert time.monotonic() < deadline
            inbox.wait(0.1)
    first.kill()
    first.wait()
    served, inside = tmp_path / "served.zst", tmp_path / "inside.zst"
    assert wire.serve(path, "--camera", "1344x760", "--out", str(served)) == 0
    assert wire.inside(path, "--camera", "1344x760", "--out", str(inside)) == 0
    assert frames(served) == frames(inside) == list(range(6))
    for a, b in zip(models(served), models(inside), strict=True):
        assert list(a.laneLines[0].y) == list(b.laneLines[0].y)
    assert "the camera server was restarted" in wire.stop()


def test_a_daemon_that_ends_is_told_frame_by_frame(
    wire: Wire, clip: Callable[..., Path], tmp_path: Path
) -> None:
    log = tmp_path / "served.zst"
    flags = wire.flags(f"loop:{clip(GREYS)}", "--camera", "1344x760", "--out", str(log))
    with (tmp_path / "errors").open("wb") as errors:
        command = [sys.executable, "-m", "modeld", *flags, "--patience", "0.3"]
        server = subprocess.Popen(command, stderr=errors)
    with ZmqTransport(connect=wire.address) as transport:
        inbox = transport.inbox(["modelV2"], conflate=False)
        for _ in range(3):
            assert inbox.wait(PATIENCE_S)
            inbox.receive("modelV2")
    wire.stop()
    assert server.wait(PATIENCE_S) == 1
    lines = [line for line in (tmp_path / "errors").read_text().splitlines() if line]
    *_, first, second, third, last = lines
    told = [re.fullmatch(r"frame (\d+) was not answered within 0.3 s", line)
            for line in (first, second, third)]  # fmt: skip
    ids = [int(match[1]) for match in told if match]
    assert ids == list(range(ids[0], ids[0] + 3))
    assert last.startswith(
        f"modeld: error: 3 frames in a row were not answered, the last is {ids[2]}: "
    )
    assert not log.exists()


def test_a_signal_ends_the_wait_for_a_daemon(clip: Callable[..., Path]) -> None:
    prefix = f"alone{os.getpid()}"
    address = f"127.{os.getpid() % 250 + 1}.9.{random.randrange(250)}"
    flags = ["replay", str(clip(GREYS)), "--serve", "--prefix", prefix, "--bind", address]
    server = subprocess.Popen(
        [sys.executable, "-m", "modeld", *flags], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    assert "serving" in server.stderr.readline()
    assert f"start `modeld run --artifact DIR --pin sha256:… --prefix {prefix}" in (
        server.stderr.readline()
    )
    server.send_signal(signal.SIGTERM)
    _, rest = server.communicate(timeout=PATIENCE_S)
    assert rest.splitlines()[-1] == "modeld: stopped by SIGTERM after 0 frames"
    assert server.returncode == 128 + signal.SIGTERM
    assert not Path(f"/tmp/{prefix}_visionipc_camerad").exists()


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ((), "give --artifact DIR, or --serve"),
        (("--serve", "--artifact", "x"), "--artifact belongs to a daemon"),
        (("--serve", "--overlay", "x.mp4", "--pin", "y"), "--pin, --overlay belongs to a daemon"),
        (("--artifact", "x", "--prefix", "y"), "--prefix has a meaning only with --serve"),
        (("--artifact", "x", "--bind", "y"), "--bind has a meaning only with --serve"),
        (("--serve", "--speed", "1.0", "--patience", "3"), "at --speed 1.0 nothing is waited for"),
        (("--serve", "--patience", "-3"), "--patience -3.0 is no time"),
        (("--serve", "--compare", "x.zst"), "--compare needs --out"),
        (("--serve", "--server", "a/b"), "server name 'a/b' cannot be part of a file name"),
        (("--serve", "--bind", "203.0.113.1"), "cannot publish deviceState on tcp://203.0.113.1"),
        (("--serve", "--speed", "fast"), "--speed fast is none of lockstep"),
    ],
)
def test_senseless_flags_are_named(
    clip: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    named: str,
) -> None:
    assert main(["replay", str(clip(GREYS)), *flags]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("modeld: error: ")
    assert named in line
