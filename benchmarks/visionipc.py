"""How long a frame takes from the camera server's ring to the hands of the model.

Run as `python -m benchmarks.visionipc`. A second process serves two full-size cameras at 20 Hz;
this one receives pairs as the daemon does. Two times are given: from the ring (the packet is
written, its readers are about to be woken) and from the server's call, which with a server in
Python costs as much again. With `--realtime` both processes run as on a device, SCHED_FIFO.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modeld.cameras.nv12 import venus_layout
from modeld.cameras.visionipc.paths import NARROW_ROAD, WIDE_ROAD, VisionIpcConfig
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.cameras.visionipc.source import VisionIpcSource, open_cameras
from modeld.cameras.visionipc.wakeup import wake
from modeld.errors import ModeldError

BUDGET_MS = 0.3
CAMERAS = {"narrow": NARROW_ROAD, "wide": WIDE_ROAD}
RATE_HZ = 20.0
WARM_UP = 20
# Seconds before a frame is due that its picture is written: as camera servers do, this one
# sleeps once it has announced a frame.
PAINTING = 0.01
PERCENTILES = (50.0, 90.0, 99.0, 100.0)
_PRIORITY = 54
_SPIN = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
"""

Times = npt.NDArray[np.int64]


def serve(folder: Path, frames: int) -> None:
    """Write both pictures, then announce them; leave the two times of each in `sent.npy`."""
    wakes: list[int] = []

    def timed_wake(thread: int) -> None:
        wakes.append(time.monotonic_ns())
        wake(thread)

    rung: list[int] = []
    called: list[int] = []
    config = VisionIpcConfig(socket_folder=folder, ring_folder=folder)
    with VisionIpcServer(config, timed_wake) as server:
        for stream in CAMERAS.values():
            server.add_stream(stream, venus_layout(1928, 1208))
        server.start()
        sys.stdin.readline()
        due = time.monotonic()
        for frame_id in range(1, frames + 1):
            due += 1 / RATE_HZ
            time.sleep(max(due - PAINTING - time.monotonic(), 0))
            for stream in CAMERAS.values():
                server.begin(stream, frame_id)[:] = frame_id % 251
            time.sleep(max(due - time.monotonic(), 0))
            for stream in CAMERAS.values():
                called.append(time.monotonic_ns())
                wakes.clear()
                server.announce(stream, frame_id, called[-1], called[-1])
                # Nobody is woken while the reader is still connecting.
                rung.append(wakes[-1] if wakes else called[-1])
        np.save(folder / "sent.npy", np.array([rung, called]).reshape(2, frames, len(CAMERAS)))
        sys.stdin.readline()


def receive(source: VisionIpcSource, frames: int) -> Times:
    """The time at which each frame was in our hands, shape (frames, cameras)."""
    times = np.zeros((frames, len(CAMERAS)), np.int64)
    for row in times:
        for camera, stream in enumerate((source.narrow, source.wide)):
            frame = None if stream is None else stream.receive(10)
            if frame is None:
                raise ModeldError(f"no frame within 10 s: {source.counters}")
            row[camera] = time.monotonic_ns()
    return times


def measure(frames: int, busy: int, realtime: bool) -> npt.NDArray[np.float64]:
    """Milliseconds from the ring and from the call, shape (2, frames, cameras).

    `busy` other processes keep a core busy each meanwhile, at normal priority.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "benchmarks.visionipc", "--frames", str(frames)]
        options = ["--serve", name, *(["--realtime"] if realtime else [])]
        server = subprocess.Popen([*command, *options], stdin=subprocess.PIPE)
        seconds = str(frames / RATE_HZ + 2)
        source = open_cameras(VisionIpcConfig(socket_folder=folder, ring_folder=folder), 30)
        source.connect(30)
        spin = [subprocess.Popen([sys.executable, "-c", _SPIN, seconds]) for _ in range(busy)]
        if server.stdin is not None:
            server.stdin.write(b"\n")
            server.stdin.flush()
        received = receive(source, frames)
        source.close()
        server.communicate(b"\n")
        for process in spin:
            process.wait()
        sent: Times = np.load(folder / "sent.npy")
    return (received - sent)[:, WARM_UP:] / 1e6


def main() -> int:
    """Measure idle and with every core busy; 1 when the 99th percentile when idle is too slow."""
    parser = argparse.ArgumentParser(prog="benchmarks.visionipc", description=__doc__)
    parser.add_argument("--frames", type=int, default=600, help="frames per camera")
    parser.add_argument("--realtime", action="store_true", help="SCHED_FIFO, as on a device")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.realtime:
        # Without the flag, the load that is started would have the priority too.
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(_PRIORITY))
    if options.serve:
        serve(options.serve, options.frames)
        return 0
    cores = len(os.sched_getaffinity(0))
    head = "".join(f"{'max' if p == 100 else f'p{p:g}':>8}" for p in PERCENTILES)
    print(f"frame in our hands after, ms ({cores} cores, {RATE_HZ:g} Hz){'':>14}{head}")
    worst = 0.0
    for title, busy in (("idle", 0), (f"{cores} cores busy", cores)):
        result = measure(options.frames, busy, options.realtime)
        for start, times in zip(("ring", "call"), result, strict=True):
            for camera, name in enumerate(CAMERAS):
                row = np.percentile(times[:, camera], PERCENTILES)
                label = f"  {title:<16}from the {start:<8}{name:<8}"
                print(f"{label:<56}" + "".join(f"{value:8.3f}" for value in row))
                if start == "ring" and not busy:
                    worst = max(worst, float(row[PERCENTILES.index(99)]))
    print(f"worst p99 from the ring, idle: {worst:.3f} ms, budget {BUDGET_MS} ms")
    return int(worst > BUDGET_MS)


if __name__ == "__main__":
    sys.exit(main())
