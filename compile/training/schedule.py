"""Learning rates as functions of the step number, so that a resumed run needs no state for them."""

import math
from dataclasses import dataclass

from modeld.errors import ModeldError

SHAPES = ("constant", "linear", "cosine")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rises linearly to `rate` over `warm_up` steps, then falls to zero at step `steps`.

    `shape` says how it falls: not at all (constant), along a line, or along half a cosine
    (https://arxiv.org/abs/1608.03983 without restarts).
    """

    shape: str
    rate: float
    steps: int
    warm_up: int = 0

    def __post_init__(self) -> None:
        """Check the values; ModeldError."""
        if self.shape not in SHAPES:
            raise ModeldError(f"schedule {self.shape!r} is unknown; use one of {', '.join(SHAPES)}")
        if not (math.isfinite(self.rate) and self.rate >= 0):
            raise ModeldError(f"learning rate {self.rate} is no rate; use a number from 0")
        if not 0 <= self.warm_up < self.steps:
            raise ModeldError(
                f"a warm-up of {self.warm_up} steps in a run of {self.steps} leaves none; "
                "use fewer warm-up steps"
            )

    def __str__(self) -> str:
        warmed = f" after {self.warm_up} of warm-up" if self.warm_up else ""
        return f"{self.shape} at {self.rate:g} over {self.steps} steps{warmed}"

    def rate_at(self, step: int) -> float:
        """The learning rate of the step after `step` finished ones."""
        if step < self.warm_up:
            return self.rate * ((step + 1) / self.warm_up)
        done = min(1.0, (step - self.warm_up) / (self.steps - self.warm_up))
        if self.shape == "linear":
            return self.rate * (1 - done)
        if self.shape == "cosine":
            return self.rate * ((1 + math.cos(math.pi * done)) / 2)
        return self.rate
