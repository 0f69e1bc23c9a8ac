"""The training loop: step, measure, save; killed and started again it goes on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from tinygrad import Device

from compile.training.checkpoint import CheckpointStore, load, locked
from compile.training.history import History
from compile.training.snapshot import Snapshot, hardware
from modeld.errors import ModeldError
from modeld.files import check_writable, make_folder, write_result

METRICS, WEIGHTS, MODEL, CHECKPOINTS = (
    "metrics.json", "weights.safetensors", "model.onnx", "checkpoints",
)  # fmt: skip


class Pace(Protocol):
    """After how many steps things happen, and how many checkpoints are kept."""

    @property
    def evaluate_every(self) -> int:
        """Steps between two measurements."""

    @property
    def save_every(self) -> int:
        """Steps between two checkpoints."""

    @property
    def keep(self) -> int:
        """Checkpoints that stay."""


class Trainer(Protocol):
    """A network, its optimizer and its data, trained step by step."""

    step: int
    history: History

    @property
    def steps(self) -> int:
        """How long the run is."""

    def train_step(self) -> float:
        """Take one step; returns the loss of its batch before the step."""

    def evaluate(self) -> str:
        """How good the network is, for the user; into the history too."""

    def snapshot(self) -> Snapshot:
        """The run as it is."""

    def resume(self, snapshot: Snapshot, history: History) -> None:
        """Go on from a snapshot; ModeldError naming both sides when it is of another run."""

    def results(self) -> Mapping[str, bytes]:
        """The files that a finished run leaves, by name."""


class Observer(Protocol):
    """Told how a run goes."""

    def begun(self, step: int, steps: int, device: str) -> None:
        """The run goes on after `step` of `steps` on a device of that name."""

    def noted(self, text: str) -> None:
        """Something worth knowing."""

    def stepped(self, step: int, loss: float) -> None:
        """A step is done."""

    def evaluated(self, step: int, quality: str) -> None:
        """The network was measured."""

    def saved(self, path: Path) -> None:
        """A checkpoint is on disk."""


T = TypeVar("T", bound=Trainer)


def train(make: Callable[[], T], pace: Pace, out: Path, observer: Observer) -> T:
    """Train to the end in directory `out`, from the last checkpoint there if there is one.

    Leaves checkpoints, the metrics, and the trainer's results. Raises ModeldError when the
    checkpoint is of another run or another process trains here.
    """
    with _run_directory(out):
        store = CheckpointStore(out / CHECKPOINTS, pace.keep)
        trainer = make()
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
        _run(trainer, pace, store, out, observer)
        for name, content in trainer.results().items():
            write_result(out / name, content)
    return trainer


def _run(
    trainer: Trainer, pace: Pace, store: CheckpointStore, out: Path, observer: Observer
) -> None:
    observer.begun(trainer.step, trainer.steps, hardware(Device.DEFAULT))
    while trainer.step < trainer.steps:
        loss = trainer.train_step()
        observer.stepped(trainer.step, loss)
        last = trainer.step == trainer.steps
        if last or trainer.step % pace.evaluate_every == 0:
            observer.evaluated(trainer.step, trainer.evaluate())
        if last or trainer.step % pace.save_every == 0:
            # Metrics first: those beyond the last checkpoint are cut off, missing ones are lost.
            write_result(out / METRICS, trainer.history.to_json())
            observer.saved(store.save(trainer.snapshot()))


def _history(path: Path, step: int) -> History:
    try:
        return History.from_json(path.read_bytes(), step)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ModeldError(f"{path} cannot be read ({error}); train in another --out") from None


@contextmanager
def _run_directory(out: Path) -> Iterator[None]:
    make_folder(out)
    check_writable(out / METRICS)  # now, not at the first checkpoint
    with locked(out):
        yield
