"""What the daemon counts since its start."""

import enum
from typing import Protocol


class Count(enum.StrEnum):
    """What is counted; values are the fields of ModeldHealth.Counters."""

    FRAMES = "frames"
    DROPS = "drops"
    OUT_OF_SYNC = "outOfSyncPairs"
    NON_FINITE = "nonFiniteOutputs"
    FROZEN = "frozenOutputs"
    CACHE_HITS = "cacheHits"
    CACHE_MISSES = "cacheMisses"
    REJECTED_MESSAGES = "rejectedMessages"
    REJECTED_FRAMES = "rejectedFrames"
    DEADLINE_MISSES = "deadlineMisses"
    RECONNECTS = "reconnects"
    FRAME_IDS_BACK = "frameIdsBack"
    TIMESTAMPS_STALLED = "timestampsStalled"
    FRAMES_IN_PLACE = "framesInPlace"
    FRAMES_COPIED = "framesCopied"
    WIDE_MISSING = "wideMissing"


class Report(Protocol):
    """How a part of the daemon tells of a fault."""

    def __call__(self, count: Count, message: str, about: str = "") -> None:
        """Count it; log `message`, one line, for the first of its kind and subject `about`."""
