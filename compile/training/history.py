"""What was measured during a run: curves, and their way through a file."""

import json
from dataclasses import dataclass, field


@dataclass
class History:
    """Curves by name: `steps` have a value for every step, `points` one after some steps.

    A run always has the curve `loss`.
    """

    steps: dict[str, list[float]] = field(default_factory=dict)
    points: dict[str, dict[int, float]] = field(default_factory=dict)

    def add(self, **values: float) -> None:
        """Append the values of one step, each to its curve."""
        for name, value in values.items():
            self.steps.setdefault(name, []).append(value)

    def mark(self, name: str, step: int, value: float) -> None:
        """Add a point after `step` steps."""
        self.points.setdefault(name, {})[step] = value

    def to_json(self) -> bytes:
        """As a file has it: lists are curves of every step, tables those of some."""
        points = {
            name: {str(step): value for step, value in curve.items()}
            for name, curve in self.points.items()
        }
        return json.dumps({**self.steps, **points}).encode() + b"\n"

    @staticmethod
    def from_json(content: bytes, step: int) -> "History":
        """The part of a file's history up to `step`: what came after is trained again."""
        history = History()
        for name, curve in json.loads(content).items():
            if isinstance(curve, list):
                history.steps[name] = curve[:step]
            else:
                kept = {int(at): value for at, value in curve.items() if int(at) <= step}
                history.points[name] = kept
        return history
