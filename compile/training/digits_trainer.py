"""Training the digits network."""

from collections.abc import Mapping

import numpy as np
from safetensors.numpy import save
from tinygrad import Context, Tensor, TinyJit

from compile.training.config import DigitsConfig, make_optimizer, run_identity
from compile.training.digits import Batches, draw_digits
from compile.training.history import History
from compile.training.loop import MODEL, WEIGHTS
from compile.training.matching import require_same_fields
from compile.training.optimizers import require_gradients
from compile.training.perceptron import Perceptron, perceptron_onnx
from compile.training.plots import Panel
from compile.training.snapshot import Snapshot, restore, start, take
from compile.training.stepping import whole_step

# The test digits are others than those trained on, whatever their number.
_TEST_SEED_OFFSET = 1_000_003
_ACCURACY = "accuracy"


class DigitsTrainer:
    """A run: network, optimizer, data, and the step as captured kernels."""

    def __init__(self, config: DigitsConfig) -> None:
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

    @property
    def steps(self) -> int:
        """How long the run is."""
        return self.config.run.steps

    @property
    def accuracy(self) -> float:
        """Share of the test digits that were recognized when last asked."""
        accuracies = self.history.points[_ACCURACY]
        return accuracies[max(accuracies)]

    def train_step(self) -> float:
        """Take one step; returns the loss of its batch before the step."""
        batch = self.batches.batch(self.step)
        rate = np.array([self.schedule.rate_at(self.step)], np.float32)
        inputs = [Tensor(array).realize() for array in (batch.images, batch.labels, rate)]
        with Context(TRAINING=1), whole_step(self.optimizer):
            loss = float(self._train(*inputs).item())
        self.step += 1
        self.history.add(loss=loss)
        return loss

    def evaluate(self) -> str:
        """Share of the test digits that are recognized, in words."""
        scores = self._predict(self._test_images).numpy()
        accuracy = float((scores.argmax(1) == self._test.labels).mean())
        self.history.mark(_ACCURACY, self.step, accuracy)
        return f"accuracy {accuracy:.1%}"

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
        require_same_fields(snapshot.record.position.get("config", {}), run_identity(self.config))
        restore(snapshot, self.network.parameters, self.optimizer, schedule=self.schedule)
        self.step, self.history = snapshot.record.step, history

    def results(self) -> Mapping[str, bytes]:
        """Weights, and the network as ONNX."""
        arrays = {name: tensor.numpy() for name, tensor in self.network.parameters.items()}
        model = perceptron_onnx(arrays, "digits")
        return {WEIGHTS: save(arrays), MODEL: model.SerializeToString(deterministic=True)}

    def panels(self) -> tuple[Panel, Panel]:
        """Loss and accuracy, to be drawn."""
        measured = sorted(self.history.points.get(_ACCURACY, {}).items())
        losses = self.history.steps.get("loss", [])
        return (
            Panel.of_steps("Loss", "cross-entropy of the batch (nat)", losses),
            Panel(
                "Accuracy on the test digits",
                "digits recognized (%)",
                [step for step, _ in measured],
                [100 * value for _, value in measured],
                limits=(0, 102),
            ),
        )

    def _training_step(self, images: Tensor, labels: Tensor, rate: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = self.network(images).sparse_categorical_crossentropy(labels)
        loss.backward()
        require_gradients(self.optimizer, self.network.parameters)
        # In place: the rate belongs to the state that is saved.
        self.optimizer.lr.assign(rate)
        Tensor.realize(loss, self.optimizer.lr, *self.optimizer.schedule_step())
        return loss
