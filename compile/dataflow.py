"""Who writes what and who reads it: tensors in memory, and the graph of launches, from a manifest.

A range of a buffer is one tensor from the launch that writes it to the last one that reads it
before any byte of it is written again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from modeld.manifest import Call


@dataclass
class Stay:
    """A tensor in bytes [offset, offset + bytes) of `buffer`, written by launch `born`."""

    buffer: str
    offset: int
    bytes: int
    born: int
    readers: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The last launch that needs it."""
        return max([self.born, *self.readers])

    def overlaps(self, buffer: str, offset: int, size: int) -> bool:
        """True where it shares a byte with that range."""
        return (
            buffer == self.buffer
            and offset < self.offset + self.bytes
            and self.offset < offset + size
        )


def stays(calls: Sequence[Call]) -> list[Stay]:
    """Every tensor that a launch writes, in the order of writing."""
    found: list[Stay] = []
    alive: list[Stay] = []
    for number, call in enumerate(calls):
        for argument in call.arguments:
            if argument.access != "write":
                for stay in alive:
                    if stay.overlaps(argument.buffer, argument.offset, argument.bytes):
                        stay.readers.append(number)
        for argument in call.arguments:
            if argument.access != "read":
                place = (argument.buffer, argument.offset, argument.bytes)
                alive = [stay for stay in alive if not stay.overlaps(*place)]
                alive.append(Stay(*place, born=number))
                found.append(alive[-1])
    return found


def depths(calls: Sequence[Call], tensors: Sequence[Stay]) -> list[int]:
    """For each launch the longest chain of launches that it waits for."""
    found = [0] * len(calls)
    for stay in sorted(tensors, key=lambda s: s.born):
        for reader in stay.readers:
            found[reader] = max(found[reader], found[stay.born] + 1)
    return found
