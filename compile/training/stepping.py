"""Steps that are whole, or known not to be.

A step assigns to parameters, moments and bias powers one after the other. When it fails between
two of them nothing in the tensors shows it: they are computed, and belong to different moments.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

from tinygrad.nn.optim import Optimizer

from modeld.errors import ModeldError

_half_done: WeakSet[Optimizer] = WeakSet()


@contextmanager
def whole_step(optimizer: Optimizer) -> Iterator[None]:
    """Run one step in this block; if it raises, `optimizer` has no snapshot until a restore."""
    try:
        yield
    except BaseException:
        _half_done.add(optimizer)
        raise


def require_whole(optimizer: Optimizer) -> None:
    """ModeldError when a step of `optimizer` failed and it was not restored since."""
    if optimizer in _half_done:
        raise ModeldError("a step failed half-way, so there is nothing to save; restore a snapshot")


def mark_whole(optimizer: Optimizer) -> None:
    """All of the optimizer's state was written anew."""
    _half_done.discard(optimizer)
