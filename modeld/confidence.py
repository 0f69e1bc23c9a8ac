"""Judgements over several turns: is hard braking coming, how far can the answer be trusted."""

from collections import deque
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from modeld.constants import (
    CONFIDENCE_BUFFER_LEN,
    CONFIDENCE_FRAMES,
    FCW_THRESHOLDS_3MS2,
    FCW_THRESHOLDS_5MS2,
    GREEN_BELOW,
    META_T_IDXS,
    YELLOW_BELOW,
    MetaLayout,
)

Array = npt.NDArray[np.float32]


class Confidence(IntEnum):
    """As ModelDataV2.ConfidenceClass counts."""

    RED = 0
    YELLOW = 1
    GREEN = 2


class HardBrakeMonitor:
    """Predicts hard braking when the nearest probabilities stay high for several turns."""

    def __init__(self, layout: MetaLayout) -> None:
        self._layout = layout
        self._brake_5 = _window(FCW_THRESHOLDS_5MS2.size)
        self._brake_3 = _window(FCW_THRESHOLDS_3MS2.size)

    def update(self, meta: Array) -> bool:
        """Take a turn's meta probabilities; returns whether braking is predicted."""
        self._brake_5.append(float(meta[self._layout.hard_brake_5][0]))
        self._brake_3.append(float(meta[self._layout.hard_brake_3][0]))
        exceeds_5 = np.asarray(self._brake_5, np.float32) > FCW_THRESHOLDS_5MS2
        exceeds_3 = np.asarray(self._brake_3, np.float32) > FCW_THRESHOLDS_3MS2
        return bool(exceeds_5.all() and exceeds_3.all())


def _window(length: int) -> deque[float]:
    return deque([0.0] * length, maxlen=length)


class ConfidenceMonitor:
    """Averages what was predicted, up to 10 s ago, about the two seconds that begin now.

    Every 2 s a row of disengagement probabilities per 2 s slice is kept. The row of i intervals
    ago said in its slice i what would happen now: the diagonal of the buffer.
    """

    def __init__(self, layout: MetaLayout) -> None:
        self._layout = layout
        self._rows = np.zeros((CONFIDENCE_BUFFER_LEN, len(META_T_IDXS)), np.float32)
        self._class = self._judge()

    def update(self, meta: Array, frame_id: int) -> Confidence:
        """Take a turn's meta probabilities; returns the class to publish."""
        if frame_id % CONFIDENCE_FRAMES == 0:
            self._rows = np.concatenate([self._rows[1:], self._slices(meta)[None]])
            self._class = self._judge()
        return self._class

    def _judge(self) -> Confidence:
        score = float(np.fliplr(self._rows).trace()) / len(META_T_IDXS)
        if score < GREEN_BELOW:
            return Confidence.GREEN
        return Confidence.YELLOW if score < YELLOW_BELOW else Confidence.RED

    def _slices(self, meta: Array) -> Array:
        """Probability of a first disengagement in each 2 s slice, given none before it."""
        layout = self._layout
        none = (
            (1 - meta[layout.brake_disengage])
            * (1 - meta[layout.gas_disengage])
            * (1 - meta[layout.steer_override])
        )
        until = 1 - none
        # Nothing is left to predict after a certain disengagement.
        later = np.divide(
            np.diff(until), none[:-1], out=np.zeros_like(until[1:]), where=none[:-1] > 0
        )
        slices: Array = np.concatenate([until[:1], later])
        return slices
