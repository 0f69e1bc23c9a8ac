"""Tensors as safetensors files."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from compile.training.stored import _TYPES, StoredTensor, dtype_named, dump, parse
from modeld.errors import ModeldError


@st.composite
def stored_tensors(draw: st.DrawFn) -> StoredTensor:
    dtype = draw(st.sampled_from(sorted(_TYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = math.prod(shape) * dtype_named(dtype).itemsize
    return StoredTensor(dtype, shape, draw(st.binary(min_size=size, max_size=size)))


@given(st.dictionaries(st.text().filter(lambda n: n != "__metadata__"), stored_tensors()))
def test_what_is_dumped_is_parsed(tensors: dict[str, StoredTensor]) -> None:
    assert parse(dump(tensors), "file") == tensors
    assert dump(dict(reversed(tensors.items()))) == dump(tensors)


def test_the_library_reads_ours_and_we_read_the_librarys() -> None:
    arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array(-1, np.int64)}
    ours = {n: StoredTensor(str(a.dtype), a.shape, a.tobytes()) for n, a in arrays.items()}
    for name, array in load(dump(ours)).items():
        assert array.dtype == arrays[name].dtype and (array == arrays[name]).all()
    assert parse(save(arrays, metadata={"made": "by"}), "file") == ours


GOOD = dump({"x": StoredTensor("float32", (2,), bytes(8))})


def damaged(old: bytes, new: bytes) -> bytes:
    assert old in GOOD and len(old) == len(new)
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its header is cut off"),
        (GOOD[:20], "its header is cut off"),
        (b"\xff" * 8 + GOOD[8:], "its header is cut off"),
        (damaged(b"{", b"["), "its header is not JSON"),
        ((2).to_bytes(8, "little") + b"[]", "its header is not an object"),
        (damaged(b"F32", b"F99"), "its entry of 'x' is wrong"),
        (damaged(b"[0,8]", b"[1,8]"), "its entry of 'x' is wrong"),
        (damaged(b"[2]", b"[3]"), "its entry of 'x' is wrong"),
        (GOOD[:-1], "its entry of 'x' is wrong"),
        (GOOD + b"\0", "it holds 9 bytes of data, its header 8"),
    ],
)
def test_malformed_files_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(ModeldError, match=f"^file is not a safetensors file .{reason}"):
        parse(content, "file")


@given(st.binary(max_size=64), st.integers(0, len(GOOD)))
def test_garbage_is_refused_and_not_crashed_on(garbage: bytes, place: int) -> None:
    for content in (garbage, GOOD[:place] + garbage):
        try:
            tensors = parse(content, "file")
        except ModeldError:
            continue
        assert parse(dump(tensors), "file") == tensors
