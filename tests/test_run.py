"""The real daemon process, from the outside: sockets, shared memory, signals, exit status."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from daemon_process import LAYOUT, PATIENCE_S, DaemonProcess, picture, some_loopback_address
from toy_artifact import write_toy
from toy_driver import expected, write_driver

import msgschema
from modeld.cameras.frame import Frame
from modeld.cameras.nv12 import packed_layout
from modeld.cameras.visionipc.paths import NARROW_ROAD, WIDE_ROAD, VisionIpcConfig
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.cameras.visionipc.wakeup import _tkill, wake
from modeld.fakes.executor import SLICES
from modeld.messaging import ZmqTransport


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("driver")
    return folder, write_driver(folder)


@pytest.fixture
def daemon(tmp_path: Path, driver: tuple[Path, str]) -> Iterator[DaemonProcess]:
    process = DaemonProcess(tmp_path, *driver)
    yield process
    process.close()


def test_from_cameras_to_messages(daemon: DaemonProcess) -> None:
    daemon.ready()
    assert not any(line.startswith("WATCHDOG=") for line in daemon.notifications())
    first = daemon.start_cameras(NARROW_ROAD, WIDE_ROAD)
    for frame_id in range(first, first + 20):
        event = daemon.answer(frame_id, NARROW_ROAD, WIDE_ROAD)
        assert event.modelV2.frameIdExtra == frame_id
        assert not event.valid  # nothing calibrated it
        # The daemon saw this very picture: road edges are its raw bytes.
        start = SLICES["road_edges"][0]
        left = event.modelV2.roadEdges[0]
        seen = expected(picture(frame_id).data)[0, start : start + 66].reshape(33, 2)
        np.testing.assert_array_equal(np.array([list(left.y), list(left.z)]).T, seen)
    ids = list(range(first, first + 20))
    for service in ("cameraOdometry", "drivingModelData"):
        heard: list[int] = []
        while not heard or heard[-1] < ids[-1]:
            heard.append(getattr(daemon.next(service), service).frameId)
        assert heard[-20:] == ids
    answered = daemon.notifications().count("WATCHDOG=1")
    assert 20 <= answered <= first + 20
    assert daemon.notifications().count("WATCHDOG_USEC=10000000") == 1

    assert daemon.stop() == 0
    assert "STOPPING=1" in daemon.notifications()
    (count,) = re.findall(r"^modeld: (\d+) frames answered", daemon.text(), re.MULTILINE)
    told = []
    while (event := daemon.receive("modeldHealth")) is not None:
        told.append(event.modeldHealth)
    assert str(told[-1].verdict) == "ok"
    assert told[-1].artifactName == "toy-driver"
    assert told[-1].counters.frames == int(count) >= 20
    assert [t.frameId for health in told for t in health.turns][-20:] == ids
    # Cameras come through the daemon itself: no tool, no compiler, no file decoder.
    imported = set(re.findall(r"\|\s+([\w.]+)$", daemon.text(), re.MULTILINE))
    assert "modeld.daemon" in imported
    banned = re.compile(
        r"(compile|tinygrad|onnx\w*|torch|av|matplotlib|rich|hdrh|zstandard"
        r"|modeld\.(replay|rig))(\.|$)"
    )
    found = sorted(name for name in imported if banned.match(name))
    assert found == []


@pytest.mark.parametrize("stream", [NARROW_ROAD, WIDE_ROAD])
def test_one_camera_devices(daemon: DaemonProcess, stream: int) -> None:
    daemon.ready()
    first = daemon.start_cameras(stream)
    for frame_id in range(first, first + 3):
        event = daemon.answer(frame_id, stream)
        assert event.modelV2.frameIdExtra == frame_id
    assert daemon.stop() == 0


def test_a_wake_up_that_is_pending_when_it_is_stopped(
    tmp_path: Path, driver: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only a driver that has compiled in this process handles SIGTERM.
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "kernels"))
    daemon = DaemonProcess(tmp_path, *driver)
    try:
        daemon.ready()
        daemon.start_cameras(NARROW_ROAD)
        main_thread = daemon.process.pid
        daemon.process.send_signal(signal.SIGSTOP)
        status = Path(f"/proc/{main_thread}/status")
        daemon.until("stop", lambda: "State:\tT" in status.read_text())
        wake(main_thread)
        _tkill()(main_thread, signal.SIGTERM)
        daemon.process.send_signal(signal.SIGCONT)
        assert daemon.process.wait(PATIENCE_S) == 0
    finally:
        daemon.close()


def test_a_camera_that_comes_late_and_goes_again(daemon: DaemonProcess) -> None:
    daemon.ready()
    first = daemon.start_cameras(NARROW_ROAD)
    assert daemon.answer(first, NARROW_ROAD).modelV2.frameIdExtra == first
    assert "cameras at" in daemon.text()
    daemon.server.add_stream(WIDE_ROAD, LAYOUT)
    daemon.until("both", lambda: "narrow and wide" in daemon.text())
    daemon.until("its reader", lambda: daemon.server.reader_count(WIDE_ROAD))
    # One slot a stream, however often it was opened.
    assert daemon.server.reader_count(NARROW_ROAD) == 1
    daemon.server.send(WIDE_ROAD, picture(first + 9))
    for frame_id in range(first + 10, first + 30):
        event = daemon.answer(frame_id, WIDE_ROAD, NARROW_ROAD)
        assert event.modelV2.frameIdExtra == frame_id

    daemon.server.close()
    daemon.server = VisionIpcServer(VisionIpcConfig(prefix=daemon.prefix))
    daemon.server.add_stream(WIDE_ROAD, LAYOUT)
    daemon.server.start()
    daemon.until("one", lambda: re.search("cameras at .*: wide$", daemon.text(), re.MULTILINE))
    daemon.until("its reader", lambda: daemon.server.reader_count(WIDE_ROAD))
    assert daemon.answer(first + 40, WIDE_ROAD).modelV2.frameIdExtra == first + 40
    assert daemon.stop() == 0
    told = []
    while (event := daemon.receive("modeldHealth")) is not None:
        told.append(event.modeldHealth)
    assert told[-1].counters.reconnects >= 1
    assert told[-1].counters.frames >= 22


def test_stop_while_waiting_for_cameras(daemon: DaemonProcess) -> None:
    daemon.ready()
    assert daemon.stop() == 0
    assert "0 frames answered" in daemon.text()


def test_interrupt_ends_it_cleanly_too(daemon: DaemonProcess) -> None:
    daemon.ready()
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(PATIENCE_S) == 0


def test_frames_of_an_unknown_size_end_it_with_one_line(daemon: DaemonProcess) -> None:
    daemon.ready()
    other = packed_layout(32, 32)
    daemon.server.add_stream(NARROW_ROAD, other)
    daemon.server.start()
    daemon.until("readers", lambda: daemon.server.reader_count(NARROW_ROAD))
    daemon.server.send(NARROW_ROAD, Frame(np.zeros(other.bytes, np.uint8), other, 0, 1, 2))
    assert daemon.process.wait(PATIENCE_S) == 1
    assert daemon.text().splitlines()[-1] == (
        "modeld: error: frame 0 is 32x32, expected 64x32; build the artifact with --camera 32x32, "
        "or choose the camera it was built for"
    )
    assert any(line.startswith("STATUS=failed: frame 0 is") for line in daemon.notifications())


def run_modeld(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "modeld", "run", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ | environment,
    )


def flags(driver: tuple[Path, str]) -> list[str]:
    address = some_loopback_address()
    return ["--artifact", str(driver[0]), "--pin", driver[1], "--bind", address]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--pin", "sha256:" + "0" * 64], "the pin says sha256:0000"),
        (["--pin", "sha256:00"], "'sha256:00' is no identity"),
        (["--pin", ""], "'' is no identity"),
        (["--frames", "-2"], "--frames -2 is no number of frames"),
        (["--source", "road", "--rate", "inf"], "--rate inf is no frame rate"),
        (["--artifact", "/nonexistent/a"], "/nonexistent/a cannot be read"),
        (["--config", "/nonexistent.toml"], "configuration /nonexistent.toml cannot be read"),
        (["--source", "/nonexistent.mp4"], "/nonexistent.mp4 does not exist"),
        (["--source", "road", "--camera", "640x480"], "not built for camera 640x480, only for 64x"),
        (["--source", "road", "--rate", "0"], "--rate 0.0 is no frame rate"),
        (["--server", "a/b"], "server name 'a/b' cannot be part of a file name"),
        (["--source", "road", "--server", "x"], "--server is for camera servers"),
        (["--source", "road", "--prefix", "x"], "--prefix is for camera servers"),
        (["--source", "road", "--sidecar", "x"], "drop --sidecar, which is for clips"),
        (["--sidecar", "x"], "--sidecar is for recordings"),
        (["--rate", "10"], "--rate is for recordings"),
        (["--camera", "64x48"], "--camera is for recordings"),
        (["--source", ""], "'' names no source"),
        (["--connect", "a b"], "cannot listen to .* at tcp://a b"),
        (["--bind", "203.0.113.1"], r"cannot publish modeldHealth on tcp://203.0.113.1:\d+"),
        (["--device", "nonesuch"], "nonesuch"),
    ],
)
def test_bad_flags_end_with_one_line(
    driver: tuple[Path, str], tmp_path: Path, change: list[str], message: str
) -> None:
    found = run_modeld(*flags(driver), "--cache", str(tmp_path), *change)
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    last = found.stderr.splitlines()[-1]
    assert last.startswith("modeld: error: ")
    assert re.search(message, last), last


def test_unpinned_artifact_needs_permission(driver: tuple[Path, str], tmp_path: Path) -> None:
    arguments = ["--artifact", str(driver[0]), "--cache", str(tmp_path)]
    arguments += ["--bind", some_loopback_address()]
    found = run_modeld(*arguments)
    assert found.returncode == 1
    assert "artifact refused (unpinned)" in found.stderr
    found = run_modeld(*arguments, "--allow", "unpinned", "--source", "/nonexistent.mp4")
    assert "degraded: the artifact is not pinned" in found.stderr
    assert "/nonexistent.mp4 does not exist" in found.stderr


def test_broken_video_and_garbage_config(driver: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "broken.mp4").write_bytes(b"no video" * 1000)
    found = run_modeld(*flags(driver), "--source", str(tmp_path / "broken.mp4"))
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1].startswith("modeld: error: ")
    assert "broken.mp4" in found.stderr
    (tmp_path / "bad.toml").write_text("[vehicle]\nspeed = 3")
    found = run_modeld(*flags(driver), "--config", str(tmp_path / "bad.toml"))
    assert found.returncode == 1
    assert "unknown key vehicle.speed" in found.stderr


SIDECAR = Path(__file__).parents[1] / "examples" / "sidecars" / "test_video.toml"
WITHOUT_EXTRAS = """
import sys
sys.modules |= dict.fromkeys(("av", "zstandard", "matplotlib", "PIL", "rich", "hdrh"))
from modeld.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""


def test_only_what_is_decoded_needs_more_than_the_five_packages(
    reference_artifact: Path, tmp_path: Path
) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "0.png").touch()
    arguments = ["--artifact", str(reference_artifact), "--allow", "unpinned", "--frames", "3"]
    arguments += ["--bind", some_loopback_address()]
    for source, status, last in (
        (["road:1"], 0, "modeld: pictures for the device: "),
        (
            [str(tmp_path / "pictures"), "--sidecar", str(SIDECAR)],
            1,
            "modeld: error: this needs the package av; install it with `pip install "
            "'modeld[replay]'`",
        ),
    ):
        command = [sys.executable, "-c", WITHOUT_EXTRAS, *arguments, "--source", *source]
        found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert found.returncode == status, found.stderr
        assert "Traceback" not in found.stderr
        assert found.stderr.splitlines()[-1].startswith(last)


def test_busy_port(driver: tuple[Path, str]) -> None:
    arguments = flags(driver)
    with ZmqTransport(bind=arguments[-1]) as other:
        other.publisher("modelV2")
        found = run_modeld(*arguments)
    assert found.returncode == 1
    last = found.stderr.splitlines()[-1]
    assert re.match(r"modeld: error: cannot publish modelV2 on tcp://127\..*in use", last)


def test_no_opencl_platform(driver: tuple[Path, str], tmp_path: Path) -> None:
    found = run_modeld(*flags(driver), OCL_ICD_VENDORS=str(tmp_path))
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    assert found.stderr.splitlines()[-1].startswith("modeld: error: ")


def test_changed_weights_are_refused(driver: tuple[Path, str], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(driver[0], copy)
    content = bytearray((copy / "weights.safetensors").read_bytes())
    content[-1] ^= 1
    (copy / "weights.safetensors").write_bytes(content)
    found = run_modeld(*flags(driver), "--artifact", str(copy))
    assert found.returncode == 1
    last = found.stderr.splitlines()[-1]
    assert last.startswith("modeld: error: artifact refused (modified-file): weights"), last


def test_artifact_that_does_not_drive(tmp_path: Path) -> None:
    pin = write_toy(tmp_path / "toy")
    found = run_modeld(*flags((tmp_path / "toy", pin)))
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1].startswith(
        "modeld: error: the artifact's model is 'generic'"
    )


def test_nothing_in_the_schema_can_move_a_car() -> None:
    """The Event union has no CAN and no panda control message: the daemon cannot publish one."""
    members = set(msgschema.load().Event.schema.union_fields)
    assert "modelV2" in members
    assert not [name for name in members if re.search(r"^can$|sendcan|panda", name, re.IGNORECASE)]
