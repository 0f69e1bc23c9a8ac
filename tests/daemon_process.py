"""The real daemon process with cameras, a service manager and a subscriber around it."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from modeld.cameras.frame import Frame
from modeld.cameras.nv12 import packed_layout
from modeld.cameras.visionipc.paths import VisionIpcConfig
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.messaging import ZmqTransport, decode_event

LAYOUT = packed_layout(64, 32)
PUBLISHED = ("modelV2", "drivingModelData", "cameraOdometry", "modeldHealth")
PATIENCE_S = 120.0


def some_loopback_address() -> str:
    """All of 127/8 is this machine: ports are fixed, so each test takes an address of its own."""
    return f"127.{os.getpid() % 250 + 1}.{random.randrange(250)}.{random.randrange(1, 250)}"


def picture(frame_id: int) -> Frame:
    rng = np.random.default_rng(frame_id)
    data = rng.integers(0, 256, LAYOUT.bytes, np.uint8)
    sof = (frame_id + 1) * 50_000_000  # 20 Hz by its stamps, as fast as it is taken in truth
    return Frame(data, LAYOUT, frame_id, sof, sof + 20_000_000)


class DaemonProcess:
    """A running `modeld run`, its service manager, cameras, and what it publishes."""

    def __init__(self, folder: Path, artifact: Path, pin: str) -> None:
        self.address = some_loopback_address()
        self.prefix = f"test{os.getpid()}_{random.randrange(1 << 30)}"
        self.server = VisionIpcServer(VisionIpcConfig(prefix=self.prefix))
        self.transport = ZmqTransport(bind=self.address, connect=self.address)
        self.inbox = self.transport.inbox(PUBLISHED, conflate=False)
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(folder / "notify"))
        self.manager.setblocking(False)
        self.notified: list[str] = []
        self.log = folder / "log"
        arguments = ["--artifact", str(artifact), "--pin", pin, "--cache", str(folder / "cache")]
        arguments += ["--prefix", self.prefix, "--bind", self.address]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                # -X importtime makes the interpreter name every module that it imports.
                [sys.executable, "-X", "importtime", "-m", "modeld", "run", *arguments],
                stdout=log,
                stderr=log,
                env=os.environ
                | {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "10000000"},
            )

    def text(self) -> str:
        return self.log.read_text()

    def until(self, what: str, condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert self.process.poll() is None, f"ended while waiting for {what}: {self.text()}"
            assert time.monotonic() < deadline, f"no {what}: {self.text()[-2000:]}"
            self.notifications()  # its queue is short
            self.inbox.wait(0.01)
        return found

    def notifications(self) -> list[str]:
        try:
            while True:
                self.notified += self.manager.recv(4096).decode().split("\n")
        except BlockingIOError:
            return self.notified

    def receive(self, service: str) -> Any:
        data = self.inbox.receive(service)
        return None if data is None else decode_event(data)

    def next(self, service: str) -> Any:
        return self.until(service, lambda: self.receive(service))

    def ready(self) -> None:
        """Wait until the service manager has been told that it is."""
        self.until("READY", lambda: "READY=1" in self.notifications())

    def start_cameras(self, *streams: int) -> int:
        """Serve the streams and show frames until all messages are heard; the next frame's id."""
        for stream in streams:
            self.server.add_stream(stream, LAYOUT)
        self.server.start()
        self.until("readers", lambda: all(self.server.reader_count(s) for s in streams))
        unheard = set(PUBLISHED[:3])
        frame_id = -1

        def heard() -> bool:
            nonlocal frame_id
            frame_id += 1
            for stream in streams:
                self.server.send(stream, picture(frame_id))
            self.inbox.wait(0.2)
            unheard.difference_update([s for s in set(unheard) if self.receive(s) is not None])
            return not unheard

        self.until("messages", heard)
        return frame_id + 1

    def answer(self, frame_id: int, *streams: int) -> Any:
        """Send a frame on the streams and wait for the daemon's answer to it."""
        for stream in streams:
            self.server.send(stream, picture(frame_id))
        event = self.next("modelV2")
        while event.modelV2.frameId != frame_id:
            event = self.next("modelV2")
        return event

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.transport.close()
        self.manager.close()
        self.server.close()
