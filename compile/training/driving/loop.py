"""The training loop: paint, see, compare, correct, all in one captured step per batch."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from tinygrad import Context, Tensor, TinyJit, dtypes
from tinygrad.dtype import DType
from tinygrad.nn.optim import AdamW

from compile.reference.topology import TOPOLOGIES, Topology
from compile.training.driving.data import Batch, BatchStream
from compile.training.driving.losses import chance_loss, choice_loss, number_loss
from compile.training.driving.model import sequence_outputs, vision
from compile.training.driving.world import HEIGHT, WIDTH, paint
from modeld.errors import ModeldError

# How often the losses are fetched, in steps; fetching waits for the device.
_REPORT_EVERY = 20
_BETAS = (0.9, 0.98)


@dataclass(frozen=True, slots=True)
class Config:
    """One training run.

    It ends after `steps` steps or `minutes` (both count over all resumes), whichever is first;
    the learning rate rises for `warm_up` steps to `rate`, then falls as a cosine to zero with
    the run's progress. `compute` is the dtype of the convolutions. Only `workers` and `device`
    may change when a run resumes.
    """

    size: str = "small"
    seed: int = 1
    sequences: int = 16
    steps_each: int = 25
    steps: int = 100_000
    minutes: float = 8.0
    rate: float = 1e-3
    warm_up: int = 200
    weight_decay: float = 0.02
    clip: float = 1.0
    compute: str = "float32"
    workers: int = 0
    device: str = "CL"


@dataclass(frozen=True, slots=True)
class Report:
    """Where a run is: steps done, share of the run, mean losses since the last report."""

    step: int
    progress: float
    loss: float
    numbers: float
    chances: float
    choices: float
    rate: float
    samples_per_second: float
    seconds: float

    def as_dict(self) -> dict[str, float]:
        """For a log line."""
        return asdict(self)


def watch(
    weights: dict[str, Tensor],
    topology: Topology,
    scenes: Tensor,
    cameras: Tensor,
    desires: Tensor,
    traffic: Tensor,
    action_t: Tensor,
    compute: DType = dtypes.float32,
) -> tuple[Tensor, Tensor]:
    """Outputs (S, T, 2066) on a batch's drives, and its images (S, T + 1, 2, 6, 128, 256)."""
    sequences, steps = desires.shape[:2]
    images = paint(scenes, cameras).detach().reshape(sequences, steps + 1, 2, 6, HEIGHT, WIDTH)
    pairs = images[:, :-1].cat(images[:, 1:], dim=3).contiguous()
    pairs = pairs.reshape(sequences * steps, 2, 12, HEIGHT, WIDTH)
    features = vision(weights, topology, pairs[:, 0], pairs[:, 1], compute)
    features = features.reshape(sequences, steps, -1)
    outputs = sequence_outputs(weights, topology, features, desires, traffic, action_t)
    return outputs, images


class Trainer:
    """Weights, optimizer and the captured step."""

    def __init__(self, config: Config, weights: dict[str, Tensor]) -> None:
        if config.size not in TOPOLOGIES:
            known = ", ".join(sorted(TOPOLOGIES))
            raise ModeldError(
                f"no reference network of size {config.size!r}; choose one of {known}"
            )
        self.config = config
        self.topology: Topology = TOPOLOGIES[config.size]
        self.weights = weights
        self.optimizer = AdamW(
            list(weights.values()),
            lr=config.rate,
            b1=_BETAS[0],
            b2=_BETAS[1],
            weight_decay=config.weight_decay,
            fused=False,
        )
        self.step_number = 0
        self.seconds = 0.0
        self._compute = getattr(dtypes, config.compute)
        self._captured: Callable[..., Tensor] = TinyJit(self._step)

    def run(self, save: Callable[["Trainer"], None], save_every: float) -> Iterator[Report]:
        """Train to the end, yielding a report now and then; `save` is called every so often."""
        config = self.config
        stream = BatchStream(
            config.seed, self.step_number, config.sequences, config.steps_each, config.workers
        )
        batches = iter(stream)
        started, before = time.monotonic(), self.seconds
        saved = reported = started
        kept: list[Tensor] = []
        try:
            while self.progress() < 1:
                losses = self.train_batch(next(batches))
                kept.append(losses)
                if len(kept) == _REPORT_EVERY or self.step_number <= 3:
                    values = np.mean([loss.numpy() for loss in kept], axis=0)
                    now = time.monotonic()
                    self.seconds = before + now - started
                    yield self._report(values, len(kept) / (now - reported))
                    kept, reported = [], now
                    if now - saved > save_every:
                        save(self)
                        saved = now
        finally:
            stream.close()
        save(self)

    def progress(self) -> float:
        """Share of the run that is done, 0 to 1."""
        by_time = self.seconds / (60 * self.config.minutes)
        return min(1.0, max(by_time, self.step_number / self.config.steps))

    def rate(self) -> float:
        """The learning rate of the next step."""
        rise = min(1.0, (self.step_number + 1) / self.config.warm_up)
        return self.config.rate * rise * 0.5 * (1 + float(np.cos(np.pi * self.progress())))

    def train_batch(self, batch: Batch) -> Tensor:
        """One step; returns (total, numbers, chances, choices) losses, still on the device."""
        device = self.config.device
        arrays = [Tensor(array, device=device).realize() for array in batch.arrays().values()]
        rate = Tensor([self.rate()], dtype=dtypes.float32, device=device).realize()
        with Context(TRAINING=1):
            losses = self._captured(*arrays, rate)
        self.step_number += 1
        # The captured step writes into the same tensor every time.
        return losses.clone().realize()

    def _report(self, values: np.ndarray, steps_per_second: float) -> Report:
        if not np.isfinite(values).all():
            raise ModeldError(
                f"the loss became {values[0]} at step {self.step_number}; "
                "resume from the last checkpoint with a lower rate"
            )
        total, numbers, chances, choices = (float(value) for value in values)
        return Report(
            step=self.step_number,
            progress=self.progress(),
            loss=total,
            numbers=numbers,
            chances=chances,
            choices=choices,
            rate=self.rate(),
            samples_per_second=steps_per_second * self.config.sequences * self.config.steps_each,
            seconds=self.seconds,
        )

    def _step(
        self,
        scenes: Tensor,
        cameras: Tensor,
        desires: Tensor,
        traffic: Tensor,
        action_t: Tensor,
        numbers: Tensor,
        weights: Tensor,
        chances: Tensor,
        choices: Tensor,
        rate: Tensor,
    ) -> Tensor:
        inputs = (scenes, cameras, desires, traffic, action_t)
        outputs, _ = watch(self.weights, self.topology, *inputs, compute=self._compute)
        parts = (
            number_loss(outputs, numbers, weights),
            chance_loss(outputs, chances),
            choice_loss(outputs, choices),
        )
        loss = parts[0] + parts[1] + parts[2]
        self.optimizer.zero_grad()
        loss.backward()
        self._clip_gradients()
        self.optimizer.lr = rate
        losses = loss.stack(*parts)
        Tensor.realize(losses, *self.optimizer.schedule_step())
        return losses

    def _clip_gradients(self) -> None:
        """Scale all gradients so that together they are not longer than `clip`."""
        gradients = [p.grad for p in self.optimizer.params if p.grad is not None]
        squares = gradients[0].square().sum()
        for gradient in gradients[1:]:
            squares = squares + gradient.square().sum()
        factor = (self.config.clip / (squares.sqrt() + 1e-6)).minimum(1.0).contiguous()
        for parameter in self.optimizer.params:
            if parameter.grad is not None:
                parameter.grad = parameter.grad * factor
