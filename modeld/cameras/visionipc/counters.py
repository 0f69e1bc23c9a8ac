"""What went wrong on a camera stream, counted, for the health message and the log."""

import logging
from dataclasses import dataclass, field
from typing import Literal

Fault = Literal[
    "evicted",
    "no_slot",
    "overrun",
    "corrupt",
    "reconnected",
    "foreign",
    "unserved",
    "bad_reply",
    "bad_index",
    "overwritten",
    "id_back",
]

_LOG = logging.getLogger(__name__)


@dataclass
class StreamCounters:
    """Events since the stream was opened; `problem` describes the latest fault in one line."""

    received: int = 0  # frames handed over
    skipped: int = 0  # older packets passed over by a stream that wants the newest only
    evicted: int = 0  # our reader slot was taken; registered again
    no_slot: int = 0  # attempts to register while all reader slots were taken
    overrun: int = 0  # the writer came round and destroyed packets not yet read
    corrupt: int = 0  # impossible ring records or packets
    reconnected: int = 0  # another server's packet, or another ring
    foreign: int = 0  # packets of a server that does not answer
    unserved: int = 0  # answers that the server has no such stream
    bad_reply: int = 0  # impossible buffers or file descriptors in a server's answer
    bad_index: int = 0  # packets naming a buffer that does not exist
    overwritten: int = 0  # pictures replaced by newer ones before they were read
    id_back: int = 0  # frame ids that jumped back
    problem: str = field(default="", compare=False)

    @property
    def rejected(self) -> int:
        """Packets and answers of which nothing could be used, and pictures that came too late."""
        return self.corrupt + self.foreign + self.bad_reply + self.bad_index + self.overwritten

    def fault(self, kind: Fault, description: str) -> None:
        """Count a fault under the field `kind`; log the 1st, 2nd, 4th, 8th … of its kind."""
        count = getattr(self, kind) + 1
        setattr(self, kind, count)
        self.problem = description
        if count & (count - 1) == 0:
            _LOG.warning("%s (%s: %d)", description, kind, count)
