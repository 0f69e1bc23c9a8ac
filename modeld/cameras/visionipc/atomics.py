"""Atomic 64-bit words in shared memory, through the compiler's own library of atomics.

Python's buffers and ctypes' plain accesses promise nothing about tearing or order between
processes. libatomic, the support library of GCC and Clang, exports every atomic operation as a
function; on 64-bit ARM and x86 they are the same lock-free instructions that a C++
`std::atomic<uint64_t>` compiles to, so both sides of a ring meet on equal terms.

Every operation here is sequentially consistent, as msgq's are: on ARM a load is an acquire
(LDAR), a store a release (STLR), and `fence` a full barrier (DMB ISH), which also orders the
kernel's copies in pread and pwrite made by the same thread.
"""

import ctypes
import functools
import mmap
from collections.abc import Callable
from dataclasses import dataclass

from modeld.errors import ModeldError

LIBRARY = "libatomic.so.1"
_SEQ_CST = 5  # __ATOMIC_SEQ_CST of the compilers' builtins
_WORD = 8


@dataclass(frozen=True, slots=True)
class _Operations:
    load: Callable[[int, int], int]
    store: Callable[[int, int, int], None]
    compare_exchange: Callable[..., bool]
    fence: Callable[[int], None]


@functools.cache
def _operations() -> _Operations:
    # PyDLL keeps the interpreter lock: the calls take nanoseconds and never block.
    try:
        library = ctypes.PyDLL(LIBRARY)
    except OSError as error:
        raise ModeldError(
            f"{LIBRARY} cannot be loaded ({error}): VisionIPC needs it for shared-memory atomics; "
            "install libatomic1 (Debian, Ubuntu) or libatomic (Alpine, Fedora)"
        ) from error
    try:
        load = library["__atomic_load_8"]
        store = library["__atomic_store_8"]
        compare_exchange = library["__atomic_compare_exchange_8"]
        is_lock_free = library["__atomic_is_lock_free"]
        fence = library["atomic_thread_fence"]
    except AttributeError as error:
        raise ModeldError(
            f"{LIBRARY} lacks a function ({error}): install the one of GCC 5 or newer"
        ) from error
    load.argtypes, load.restype = (ctypes.c_void_p, ctypes.c_int), ctypes.c_uint64
    store.argtypes, store.restype = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int), None
    compare_exchange.argtypes = (
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.c_uint64,
        ctypes.c_int,
        ctypes.c_int,
    )
    compare_exchange.restype = ctypes.c_bool
    fence.argtypes, fence.restype = (ctypes.c_int,), None
    is_lock_free.argtypes, is_lock_free.restype = (ctypes.c_size_t, ctypes.c_void_p), ctypes.c_bool
    if not is_lock_free(_WORD, None):
        raise ModeldError(
            "64-bit atomics are not lock-free on this CPU, so they cannot be shared between "
            "processes: VisionIPC needs a 64-bit system"
        )
    return _Operations(load, store, compare_exchange, fence)


def require_atomics() -> None:
    """Raise ModeldError, with what to install, where there are no atomics."""
    _operations()


class AtomicWords:
    """The unsigned 64-bit words at the beginning of a shared mapping, by index.

    The mapping stays referenced, so that it cannot be unmapped under an operation.
    """

    def __init__(self, memory: mmap.mmap, count: int) -> None:
        if len(memory) < count * _WORD:
            raise ValueError(f"{count} words do not fit a mapping of {len(memory)} bytes")
        operations = _operations()
        self._load = operations.load
        self._store = operations.store
        self._compare_exchange = operations.compare_exchange
        self._fence = operations.fence
        self._memory = memory
        self._export = ctypes.c_char.from_buffer(memory)
        base = ctypes.addressof(self._export)
        self._addresses = [base + index * _WORD for index in range(count)]

    def load(self, index: int) -> int:
        """The word's value."""
        return self._load(self._addresses[index], _SEQ_CST)

    def loader(self, index: int) -> Callable[[], int]:
        """`load` of one word, for the paths that have to be quick."""
        return functools.partial(self._load, self._addresses[index], _SEQ_CST)

    def store(self, index: int, value: int) -> None:
        """Replace the word's value."""
        self._store(self._addresses[index], value, _SEQ_CST)

    def compare_exchange(self, index: int, expected: int, desired: int) -> bool:
        """Replace the word if it still holds `expected`; whether it did."""
        current = ctypes.c_uint64(expected)
        address = self._addresses[index]
        return self._compare_exchange(address, current, desired, _SEQ_CST, _SEQ_CST)

    def fence(self) -> None:
        """Order everything before this call before everything after it, for every CPU."""
        self._fence(_SEQ_CST)
