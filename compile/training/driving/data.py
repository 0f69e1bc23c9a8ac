"""Batches of random drives: scene parameters, camera rows, inputs and targets, all numpy.

A batch is a function of (seed, number) alone, so a run that resumes sees what it would have seen.
"""

from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from compile.training.driving.targets import Targets, targets_of
from compile.training.driving.world import camera_rows
from compile.workers import WorkerContext
from modeld.calibration import DEVICE_CAMERAS, Intrinsics
from modeld.replay.road.drive import Drive, parameter_rows

Floats = npt.NDArray[np.float32]

STEP_SECONDS = 0.2
_DEVICES = (DEVICE_CAMERAS["tizi", "ox03c10"], DEVICE_CAMERAS["mici", "os04c10"])
# Batches made ahead of the one in use, per worker process.
_AHEAD = 2


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences (S) of T steps, from T + 1 frames, the first only seen as the older of a pair.

    scenes (S (T + 1), parameters) and cameras (S (T + 1), 2, CAMERA_ROW) are for `world.paint`;
    the rest is (S, T, width).
    """

    scenes: Floats
    cameras: Floats
    desires: Floats
    traffic: Floats
    action_t: Floats
    numbers: Floats
    weights: Floats
    chances: Floats
    choices: Floats

    def arrays(self) -> dict[str, Floats]:
        """By name, in a fixed order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def make_batch(seed: int, number: int, sequences: int, steps: int) -> Batch:
    """Batch `number` of the stream that `seed` starts."""
    drive = Drive([seed, number], sequences)
    random = np.random.default_rng([seed, number, 1])
    cameras, wide_error = _cameras(random, sequences)
    action_t = np.stack(
        [random.uniform(0.1, 0.6, sequences), random.uniform(0.3, 0.8, sequences)], 1
    ).astype(np.float32)
    drives_left = drive.scene["drives_left"] > 0
    traffic = np.stack([~drives_left, drives_left], 1).astype(np.float32)
    scenes, desires, targets = [], [], []
    for step in range(steps + 1):
        if step:
            drive.step(STEP_SECONDS)
        moment = drive.moment()
        scenes.append(parameter_rows(moment.scene))
        if step:
            pulse = np.eye(8, dtype=np.float32)[moment.pulse.astype(int)]
            pulse[:, 0] = 0  # "none" never pulses
            desires.append(pulse)
            targets.append(targets_of(moment, action_t, wide_error))
    frames = sequences * (steps + 1)
    return Batch(
        scenes=np.stack(scenes, 1).reshape(frames, -1),
        cameras=np.repeat(cameras, steps + 1, axis=0),
        desires=np.stack(desires, 1),
        traffic=_repeated(traffic, steps),
        action_t=_repeated(action_t, steps),
        numbers=_stacked(targets, "numbers"),
        weights=_stacked(targets, "weights"),
        chances=_stacked(targets, "chances"),
        choices=_stacked(targets, "choices"),
    )


def _repeated(values: Floats, steps: int) -> Floats:
    return np.repeat(values[:, None], steps, axis=1)


def _stacked(targets: list[Targets], name: str) -> Floats:
    return np.stack([getattr(target, name) for target in targets], 1)


def _cameras(random: np.random.Generator, sequences: int) -> tuple[Floats, Floats]:
    """Camera rows (S, 2, CAMERA_ROW) and the wide cameras' errors (S, 3) in radians.

    Some devices have one camera: its frame then also feeds the wide view, whose borders repeat.
    """
    rows, errors = [], []
    for _ in range(sequences):
        device = _DEVICES[random.integers(len(_DEVICES))]
        narrow, wide = device.narrow, device.wide
        if wide is None or random.random() < 0.35:
            wide = narrow
            # A clip redrawn for a device can show less than the device's own lens would.
            narrow = wide = _cropped(random, narrow) if random.random() < 0.3 else narrow
        error = random.normal(0, 0.003, 3) * (wide is not narrow)
        rpy = random.normal(0, (0.01, 0.03, 0.02))
        # Softness of lens and resampling, in pixels of the network's narrow view.
        soft = np.exp(random.uniform(np.log(0.35), np.log(1.6)))
        blur = np.array([soft * narrow.focal / 910, soft * wide.focal / 455])
        if wide is narrow:
            blur[1] = max(blur[0], 0.5 * blur[1])
        rows.append(camera_rows(narrow, wide, rpy, error, np.maximum(blur, 0.7)))
        errors.append(error)
    return np.stack(rows), np.stack(errors).astype(np.float32)


def _cropped(random: np.random.Generator, camera: Intrinsics) -> Intrinsics:
    """A camera that sees a random smaller part, around about the same axis."""
    width = int(camera.width * random.uniform(0.8, 1.0)) // 2 * 2
    height = int(camera.height * random.uniform(0.75, 1.0)) // 2 * 2
    left = (camera.width - width) * random.uniform(0.3, 0.7)
    top = (camera.height - height) * random.uniform(0.3, 0.9)
    return Intrinsics(width, height, camera.focal, camera.width / 2 - left, camera.height / 2 - top)


class BatchMaker:
    """Batches by number, made ahead by `workers` processes; 0 makes them here."""

    def __init__(self, seed: int, sequences: int, steps: int, workers: int) -> None:
        self._seed = seed
        self._shape = (sequences, steps)
        self._pool = ProcessPoolExecutor(workers, WorkerContext()) if workers else None
        self._waiting: dict[int, Future[Batch]] = {}
        self._depth = 1 + _AHEAD * workers

    def batch(self, number: int) -> Batch:
        """Batch `number`; it is expected that those after it come next."""
        if self._pool is None:
            return make_batch(self._seed, number, *self._shape)
        for ahead in range(number, number + self._depth):
            if ahead not in self._waiting:
                self._waiting[ahead] = self._pool.submit(
                    make_batch, self._seed, ahead, *self._shape
                )
        return self._waiting.pop(number).result()

    def close(self) -> None:
        """End the worker processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
