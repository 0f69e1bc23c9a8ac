"""A message whose floats are replaced, not filled in again.

Cap'n Proto takes floats one by one, which is the larger part of the time from an answer to its
message. But messages of one network differ only in their numbers: every list keeps its length. So
one is filled with marks in place of the outputs; where a mark lies in its bytes, its output goes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
# A capnp struct builder; its fields are known only to the schema.
Builder = Any

# Marks have this bit pattern and the following ones, floats of 1.6e29 and a little more. No other
# word of a message is as large as long as its numbers are zero: pointers hold offsets and lengths.
_FIRST_MARK = 0x70000000


def make_marks(outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays of the names and shapes of `outputs`, every element a mark of its own."""
    marks, first = {}, _FIRST_MARK
    for name, array in outputs.items():
        patterns = np.arange(first, first + array.size, dtype="<u4")
        marks[name] = patterns.view("<f4").reshape(array.shape)
        first += array.size
    return marks


class Template:
    """Encodes `event`, an Event builder into which `marks` were filled, with other numbers there.

    Fields that hold no mark may be set in the builder before every `encode`, lists may not.
    """

    def __init__(self, event: Builder, marks: Mapping[str, Array]) -> None:
        self._event = event
        words = np.frombuffer(event.to_bytes(), "<u4")
        self._names, places, sources = [], [], []
        first, kept = _FIRST_MARK, 0
        for name, array in marks.items():
            found = np.flatnonzero(words - first < array.size)
            if found.size:
                self._names.append(name)
                places.append(found)
                sources.append(words[found] - first + kept)
                kept += array.size
            first += array.size
        # Which places hold which elements of those outputs, one output after the other.
        self._places = np.concatenate(places)
        self._sources = np.concatenate(sources)

    def encode(self, outputs: Mapping[str, Array]) -> bytes:
        """The message with `outputs` where their marks were; others are not looked at."""
        # Lists are as they were, so writing again leaks nothing.
        self._event.clear_write_flag()
        data = bytearray(self._event.to_bytes())
        values = np.concatenate([outputs[name].reshape(-1) for name in self._names])
        np.frombuffer(data, "<f4")[self._places] = values[self._sources]
        return bytes(data)
