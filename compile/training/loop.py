"""The training loop: batch, step, measure, save; killed and started again it goes on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from safetensors.numpy import save
from tinygrad import Context, Device, Tensor, TinyJit

from compile.training.checkpoint import CheckpointStore, load, locked
from compile.training.config import (
    TrainConfig,
    changed_fields,
    make_optimizer,
    run_identity,
)
from compile.training.digits import Batches, draw_digits
from compile.training.optimizers import require_gradients
from compile.training.perceptron import Perceptron, perceptron_onnx
from compile.training.snapshot import Snapshot, hardware, restore, start, take
from compile.training.stepping import whole_step
from modeld.errors import ModeldError
from modeld.files import write_atomic

# The test digits are others than those trained on, whatever their number.
_TEST_SEED_OFFSET = 1_000_003
METRICS, WEIGHTS, MODEL, CHECKPOINTS = (
    "metrics.json", "weights.safetensors", "model.onnx", "checkpoints",
)  # fmt: skip


@dataclass
class History:
    """What was measured: the loss of every step, and accuracy (0 to 1) after some steps."""

    losses: list[float] = field(default_factory=list)
    accuracies: dict[int, float] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """As a file has it."""
        accuracies = {str(step): value for step, value in self.accuracies.items()}
        return json.dumps({"loss": self.losses, "accuracy": accuracies}).encode() + b"\n"

    @staticmethod
    def from_json(content: bytes, step: int) -> "History":
        """The part of a file's history up to `step`: what came after is trained again."""
        document = json.loads(content)
        accuracies = {int(at): value for at, value in document["accuracy"].items()}
        return History(
            document["loss"][:step], {at: v for at, v in accuracies.items() if at <= step}
        )


class Observer(Protocol):
    """Told how a run goes."""

    def begun(self, step: int, steps: int, device: str) -> None:
        """The run goes on after `step` of `steps` on a device of that name."""

    def noted(self, text: str) -> None:
        """Something worth knowing."""

    def stepped(self, step: int, loss: float) -> None:
        """A step is done."""

    def evaluated(self, step: int, accuracy: float) -> None:
        """The test digits were looked at."""

    def saved(self, path: Path) -> None:
        """A checkpoint is on disk."""


class Trainer:
    """A run: network, optimizer, data, and the step as captured kernels."""

    def __init__(self, config: TrainConfig) -> None:
        Tensor.manual_seed(config.run.seed)
        self.config, self.schedule = config, config.full_schedule
        self.network = Perceptron((784, config.network.hidden, 10), config.network.dropout)
        parameters = list(self.network.parameters.values())
        self.optimizer = make_optimizer(config.optimizer, parameters)
        start(self.network.parameters, self.optimizer)
        data = config.data
        self.batches = Batches(draw_digits(data.train, data.seed), data.batch, data.seed)
        self._test = draw_digits(data.test, data.seed + _TEST_SEED_OFFSET)
        self._test_images = Tensor(self._test.images).realize()
        self.step, self.history = 0, History()
        self._train = TinyJit(self._training_step)
        self._predict = TinyJit(lambda images: self.network(images).realize())

    def train_step(self) -> float:
        """Take one step; returns the loss of its batch before the step."""
        batch = self.batches.batch(self.step)
        rate = np.array([self.schedule.rate_at(self.step)], np.float32)
        inputs = [Tensor(array).realize() for array in (batch.images, batch.labels, rate)]
        with Context(TRAINING=1), whole_step(self.optimizer):
            loss = float(self._train(*inputs).item())
        self.step += 1
        self.history.losses.append(loss)
        return loss

    def evaluate(self) -> float:
        """Share of the test digits that are recognized."""
        scores = self._predict(self._test_images).numpy()
        accuracy = float((scores.argmax(1) == self._test.labels).mean())
        self.history.accuracies[self.step] = accuracy
        return accuracy

    def snapshot(self) -> Snapshot:
        """The run as it is."""
        epoch, batch = divmod(self.step, self.batches.per_epoch)
        position = {"epoch": epoch, "batch": batch, "config": run_identity(self.config)}
        return take(
            self.network.parameters,
            self.optimizer,
            step=self.step,
            schedule=self.schedule,
            position=position,
        )

    def resume(self, snapshot: Snapshot, history: History) -> None:
        """Go on from a snapshot; ModeldError naming both sides when it is of another run."""
        changed = changed_fields(snapshot.record.position.get("config", {}), self.config)
        if changed:
            raise ModeldError(f"{'; '.join(changed)}; use the old value or another --out")
        restore(snapshot, self.network.parameters, self.optimizer, schedule=self.schedule)
        self.step, self.history = snapshot.record.step, history

    def _training_step(self, images: Tensor, labels: Tensor, rate: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = self.network(images).sparse_categorical_crossentropy(labels)
        loss.backward()
        require_gradients(self.optimizer, self.network.parameters)
        # In place: the rate belongs to the state that is saved.
        self.optimizer.lr.assign(rate)
        Tensor.realize(loss, self.optimizer.lr, *self.optimizer.schedule_step())
        return loss


def train(config: TrainConfig, out: Path, observer: Observer) -> Trainer:
    """Train to the end in directory `out`, from the last checkpoint there if there is one.

    Leaves checkpoints, the metrics, the weights and the network as ONNX. Raises ModeldError when
    the checkpoint is of another run or another process trains here.
    """
    with _run_directory(out):
        store = CheckpointStore(out / CHECKPOINTS, config.run.keep)
        trainer = Trainer(config)
        latest = store.latest()
        if latest is not None:
            snapshot = load(latest)
            trainer.resume(snapshot, _history(out / METRICS, snapshot.record.step))
            made_on = snapshot.record.devices
            if made_on != {name: hardware(name) for name in made_on}:
                made_by = ", ".join(made_on.values())
                observer.noted(
                    f"the steps before were made by {made_by}, which may round otherwise"
                )
        _run(trainer, store, out, observer)
        arrays = {name: tensor.numpy() for name, tensor in trainer.network.parameters.items()}
        write_atomic(out / WEIGHTS, save(arrays))
        model = perceptron_onnx(arrays, "digits")
        write_atomic(out / MODEL, model.SerializeToString(deterministic=True))
    return trainer


def _run(trainer: Trainer, store: CheckpointStore, out: Path, observer: Observer) -> None:
    run = trainer.config.run
    observer.begun(trainer.step, run.steps, hardware(Device.DEFAULT))
    while trainer.step < run.steps:
        observer.stepped(trainer.step + 1, trainer.train_step())
        last = trainer.step == run.steps
        if last or trainer.step % run.evaluate_every == 0:
            observer.evaluated(trainer.step, trainer.evaluate())
        if last or trainer.step % run.save_every == 0:
            # Metrics first: those beyond the last checkpoint are cut off, missing ones are lost.
            write_atomic(out / METRICS, trainer.history.to_json())
            observer.saved(store.save(trainer.snapshot()))


def _history(path: Path, step: int) -> History:
    try:
        return History.from_json(path.read_bytes(), step)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModeldError(f"{path} cannot be read ({error}); train in another --out") from None


@contextmanager
def _run_directory(out: Path) -> Iterator[None]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = locked(out)
    except OSError as error:
        raise ModeldError(f"{out} cannot be made ({error.strerror})") from None
    with lock:
        yield
