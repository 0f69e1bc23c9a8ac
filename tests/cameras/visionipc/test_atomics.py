import ctypes
import mmap
import threading

import pytest

from modeld.cameras.visionipc import atomics
from modeld.cameras.visionipc.atomics import AtomicWords
from modeld.cameras.visionipc.paths import VisionIpcConfig
from modeld.cameras.visionipc.stream import VisionIpcStream
from modeld.errors import ModeldError


@pytest.fixture
def words() -> AtomicWords:
    return AtomicWords(mmap.mmap(-1, 4096), 512)


def test_a_word_is_eight_little_endian_bytes_of_the_mapping() -> None:
    memory = mmap.mmap(-1, 4096)
    words = AtomicWords(memory, 3)
    words.store(2, 0x0102030405060708)
    assert memory[16:24] == bytes([8, 7, 6, 5, 4, 3, 2, 1])
    memory[8:16] = (2**64 - 1).to_bytes(8, "little")
    assert words.load(1) == 2**64 - 1
    assert words.load(0) == 0


def test_compare_exchange_replaces_only_what_was_expected(words: AtomicWords) -> None:
    words.store(0, 5)
    assert not words.compare_exchange(0, 4, 9)
    assert words.load(0) == 5
    assert words.compare_exchange(0, 5, 2**63)
    assert words.load(0) == 2**63


def test_words_beyond_the_mapping_are_refused() -> None:
    with pytest.raises(ValueError, match="513 words do not fit a mapping of 4096 bytes"):
        AtomicWords(mmap.mmap(-1, 4096), 513)


def test_no_increment_is_lost_between_threads(words: AtomicWords) -> None:
    def add() -> None:
        for _ in range(5000):
            while not words.compare_exchange(7, value := words.load(7), value + 1):
                pass

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert words.load(7) == 20_000


@pytest.fixture
def unloaded() -> object:
    atomics._operations.cache_clear()
    yield
    atomics._operations.cache_clear()


@pytest.mark.usefixtures("unloaded")
def test_a_missing_library_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomics, "LIBRARY", "libatomic.so.999")
    with pytest.raises(ModeldError, match=r"libatomic\.so\.999 cannot be loaded .*libatomic1"):
        AtomicWords(mmap.mmap(-1, 4096), 1)


@pytest.mark.usefixtures("unloaded")
def test_a_missing_library_is_told_when_a_stream_is_made(
    monkeypatch: pytest.MonkeyPatch, config: VisionIpcConfig
) -> None:
    monkeypatch.setattr(atomics, "LIBRARY", "libatomic.so.999")
    with pytest.raises(ModeldError, match="cannot be loaded"):
        VisionIpcStream(config, 0, conflate=True)


@pytest.mark.usefixtures("unloaded")
def test_a_library_without_the_functions_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomics, "LIBRARY", "libc.so.6")
    with pytest.raises(ModeldError, match=r"libc\.so\.6 lacks a function .*__atomic_load_8"):
        AtomicWords(mmap.mmap(-1, 4096), 1)


@pytest.mark.usefixtures("unloaded")
def test_atomics_that_lock_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ctypes.PyDLL(atomics.LIBRARY)

    @ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_size_t, ctypes.c_void_p)
    def never(size: int, pointer: int) -> bool:
        return False

    class Library:
        atomic_thread_fence = real.atomic_thread_fence

        def __getitem__(self, name: str) -> object:
            return never if name == "__atomic_is_lock_free" else real[name]

    monkeypatch.setattr(ctypes, "PyDLL", lambda name: Library())
    with pytest.raises(ModeldError, match="not lock-free on this CPU"):
        AtomicWords(mmap.mmap(-1, 4096), 1)
