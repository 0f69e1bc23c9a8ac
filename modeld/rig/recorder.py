"""What the rig hears of a daemon, kept as statistics: constant memory however long it runs."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from modeld.health import TurnTimes
from modeld.rig.latency import Answer, Histogram, Misses, OpenLoop, Sample

# The daemon's own rule: the first runs of a model are no measure of the later ones.
WARMUP_FRAMES = 10
# The last ten minutes are kept frame by frame, for plots.
_KEPT_FRAMES = 12_000

END_TO_END = "end_to_end"
# The stages that add up to `end_to_end`, in the order they happen.
STACKED = (
    "wait", "sync", "upload", "warp", "model", "read", "host", "parse", "deliver",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One answered frame: when it was due and answered, and the daemon's own times of it."""

    answer: Answer
    times: TurnTimes


class Recorder:
    """Statistics of a run. `answered` and `turn` come from two streams and are matched by id."""

    def __init__(self, period_ns: int, deadline_ns: int) -> None:
        self.histograms: dict[str, Histogram] = {END_TO_END: Histogram()}
        self.misses = Misses(deadline_ns)
        self.samples: deque[Sample] = deque(maxlen=_KEPT_FRAMES)
        self.rows: deque[Row] = deque(maxlen=_KEPT_FRAMES)
        self.answers = 0
        self.invalid = 0
        self._loop = OpenLoop(period_ns)
        self._unmatched: dict[int, Answer] = {}

    def answered(self, answer: Answer, valid: bool) -> None:
        """A modelV2 message arrived."""
        self.answers += 1
        if self.answers <= WARMUP_FRAMES:
            return
        self.invalid += not valid
        self._unmatched[answer.frame_id] = answer
        self._take(self._loop.add(answer))

    def finish(self, now: int) -> None:
        """The cameras still run at `now`: frames without an answer until then are misses."""
        self._take(self._loop.finish(now))

    def turn(self, times: TurnTimes) -> None:
        """The daemon told the times of a turn; those of warm-up frames are left out."""
        answer = self._unmatched.pop(times.frame_id, None)
        if answer is None or answer.timestamp_eof != times.timestamp_eof:
            return
        # Turns are told in order: answers before this one will not be told of any more.
        for frame_id in [f for f in self._unmatched if f < answer.frame_id]:
            del self._unmatched[frame_id]
        self.rows.append(Row(answer, times))
        for name, duration in stage_times(times, answer).items():
            self.histograms.setdefault(name, Histogram()).record(duration)

    def _take(self, samples: list[Sample]) -> None:
        for sample in samples:
            self.histograms[END_TO_END].record(sample.latency)
            self.misses.add(sample)
            self.samples.append(sample)


def stage_times(times: TurnTimes, answer: Answer) -> dict[str, int]:
    """Durations of a frame's stages in ns, in order.

    `wait` is from the end of frame until the daemon had it. `deliver` is from the choice of an
    action until the subscriber had modelV2, which is the first of the three messages whose sending
    `publish` is. `overhead` is the part of the turn in which no kernel ran: copies and Python.
    """
    stages = times.stages()
    return {
        "wait": times.received - times.timestamp_eof,
        **stages,
        "overhead": stages["turn"] - times.warp - times.model,
        "deliver": answer.answered - times.parsed,
    }


def turns_of(health: Any) -> Iterator[TurnTimes]:
    """The turns that a ModeldHealth message tells of."""
    names = [field.name for field in fields(TurnTimes)]
    wire = {"frame_id": "frameId", "timestamp_eof": "timestampEof"}
    for turn in health.turns:
        yield TurnTimes(**{name: getattr(turn, wire.get(name, name)) for name in names})
