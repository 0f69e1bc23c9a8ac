"""How a training run looks in a terminal, and in a file when there is none."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class TrainingDisplay:
    """A progress bar with loss and quality; where stderr is no terminal, a line for each event.

    Use it as a context manager: leaving it closes the bar.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, soft_wrap=True, highlight=False)
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]} {task.fields[quality]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None, loss="", quality="")
        self._loss = 0.0

    def __enter__(self) -> "TrainingDisplay":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begun(self, step: int, steps: int, device: str) -> None:
        """Say where the run starts."""
        start = f"goes on after step {step}" if step else "starts"
        self._console.print(f"training {start} of {steps} on {device}")
        self._progress.update(self._task, total=steps, completed=step)

    def noted(self, text: str) -> None:
        """Say something worth knowing."""
        self._console.print(f"note: {text}")

    def stepped(self, step: int, loss: float) -> None:
        """Move the bar."""
        self._loss = loss
        self._progress.update(self._task, completed=step, loss=f"loss {loss:.3f}")

    def evaluated(self, step: int, quality: str) -> None:
        """Show how good the network is."""
        self._progress.update(self._task, quality=quality)
        if not self._console.is_terminal:
            self._console.print(f"step {step}: loss {self._loss:.3f}, {quality}")

    def saved(self, path: Path) -> None:
        """Say so in a file; on a terminal the bar goes on."""
        if not self._console.is_terminal:
            self._console.print(f"saved {path.name}")
