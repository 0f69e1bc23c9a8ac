"""A recording as the rest of a device: its cameras and its messages, for a daemon elsewhere.

Frames go out over VisionIPC and messages over the wire, in the order in which the recording has
them, with its ids and times. In lock-step a frame waits for the answer to the one before it.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from modeld.cameras.frame import EndOfStreamError, Frame, FrameStream
from modeld.cameras.visionipc.paths import NARROW_ROAD, WIDE_ROAD
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.clock import Clock
from modeld.daemon import PUBLISHED
from modeld.errors import ModeldError
from modeld.replay.simulation import RecordedDevice
from modeld.replay.wire import Heard, Listener, Speaker

_LOOK_S = 0.02
_ECHO_S = 1.0
# What a daemon's sockets get: those that it listens on, and those that it speaks on.
_LISTENING_S, _SPEAKING_S = 2.0, 0.5
# The other messages of a turn follow modelV2 at once, if a daemon sends them at all.
_COMPANIONS_S = 0.2
_STOPPABLE_S = 0.1
_LAST_S = 1.0
_HALF_PERIOD_NS = 25_000_000
_MOST_SILENT = 3


@dataclass(frozen=True, slots=True)
class ServedTurn:
    """A frame that went out, the messages that went before it, and what was heard since the last.

    `answered` is None unless the answer was waited for.
    """

    frame_id: int
    messages: tuple[bytes, ...]
    heard: Heard
    answered: bool | None


class Serving:
    """Plays `device` through `server` and `speaker`, and hears what `listen` then opens.

    `patience_s` is how long lock-step waits for an answer, None where nothing is waited for.
    Raises ModeldError when another camera server runs under that name.
    """

    def __init__(
        self,
        device: RecordedDevice,
        server: VisionIpcServer,
        speaker: Speaker,
        listen: Callable[[], Listener],
        clock: Clock,
        stop: threading.Event,
        patience_s: float | None,
    ) -> None:
        self._device = device
        self._server = server
        self._speaker = speaker
        self._listen = listen
        self._clock = clock
        self._stop = stop
        self._patience_s = patience_s
        self._main, self._extra = _cameras(device)
        self._main_stream = WIDE_ROAD if device.recording.wide_only else NARROW_ROAD
        self._extra_sof = -1
        self._listener: Listener | None = None
        self._last: int | None = None
        device.outlet.record()
        server.add_stream(self._main_stream, device.recording.layout)
        if self._extra is not None:
            server.add_stream(WIDE_ROAD, device.recording.layout)
        server.start()

    def turns(self) -> Iterator[ServedTurn]:
        """Wait for a daemon, then serve to the recording's end, or until stopped.

        Raises ModeldError when the recording fails, or when the daemon has fallen silent.
        """
        if not self._daemon_came():
            return
        listener = self._listener = self._listen()
        # Connected only now, when the daemon's sockets are there: its first answer is not lost.
        self._stop.wait(_SPEAKING_S)
        silent = 0
        while not self._stop.is_set():
            try:
                frame = self._main.receive(_LOOK_S)
                extras = [] if frame is None else list(self._extras(frame))
            except EndOfStreamError:
                return
            if frame is None:
                continue
            turn = self._serve(listener, frame, extras)
            yield turn
            silent = silent + 1 if turn.answered is False else 0
            if silent == _MOST_SILENT:
                raise ModeldError(
                    f"{silent} frames in a row were not answered, the last is {frame.frame_id}: "
                    "the daemon has ended, takes longer than --patience, or publishes elsewhere"
                )

    def last_words(self) -> Heard:
        """What is heard after the end; where nothing was waited for, the last answer is now."""
        if self._listener is None or self._last is None:
            return Heard((), (), ())
        if self._patience_s is None:
            self._wait(self._listener, self._last, _LAST_S)
        return self._listener.take()

    def _daemon_came(self) -> bool:
        """Wait until a daemon has taken the cameras and listens; False when stopped before."""
        while not self._server.reader_count(self._main_stream):
            if self._stop.wait(_LOOK_S):
                return False
        # A daemon connects in its own time, and need not listen to everything that we send.
        deadline = self._clock.monotonic_ns() + round(_LISTENING_S * 1e9)
        while not self._taken() and self._clock.monotonic_ns() < deadline:
            self._stop.wait(_LOOK_S)
        return True

    def _taken(self) -> bool:
        extra = self._extra is None or self._server.reader_count(WIDE_ROAD) > 0
        return self._speaker.listened_to() and extra

    def _serve(self, listener: Listener, frame: Frame, extras: list[Frame]) -> ServedTurn:
        messages = self._device.outlet.take()
        patience_s = self._patience_s
        self._speaker.say(messages, 0.0 if patience_s is None else _ECHO_S)
        # The main camera comes last: it is what a daemon waits for.
        for extra in extras:
            self._server.send(WIDE_ROAD, extra)
        listener.expect(frame.frame_id)
        self._server.send(self._main_stream, frame)
        answered = None
        if patience_s is not None:
            answered = self._wait(listener, frame.frame_id, patience_s)
        self._last = frame.frame_id
        sent = tuple(data for _, data in messages)
        return ServedTurn(frame.frame_id, sent, listener.take(), answered)

    def _extras(self, main: Frame) -> Iterator[Frame]:
        """The wide frames up to the one that belongs to `main`, if they are not out already."""
        while self._extra is not None and self._extra_sof < main.timestamp_sof - _HALF_PERIOD_NS:
            extra = self._extra.receive(_LOOK_S)
            if extra is None:
                return
            self._extra_sof = extra.timestamp_sof
            yield extra

    def _wait(self, listener: Listener, frame_id: int, patience_s: float) -> bool | None:
        """Whether the answer came in time; None when stopped meanwhile."""
        deadline = self._clock.monotonic_ns() + round(patience_s * 1e9)
        while not listener.wait(PUBLISHED[0], frame_id, _STOPPABLE_S):
            if self._stop.is_set():
                return None
            if self._clock.monotonic_ns() >= deadline:
                return False
        for service in PUBLISHED[1:]:
            listener.wait(service, frame_id, _COMPANIONS_S)
        return True


def _cameras(device: RecordedDevice) -> tuple[FrameStream, FrameStream | None]:
    """The main camera and, on a device that has two, the wide one."""
    if device.narrow is not None:
        return device.narrow, device.wide
    if device.wide is None:
        raise ModeldError(f"{device.recording.title} has no camera")
    return device.wide, None
