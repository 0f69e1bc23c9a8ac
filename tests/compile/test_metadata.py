"""Head slices from exporters' pickles, read without unpickling."""

import base64
import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx_models import encode_slices

from compile.metadata import read_output_slices
from compile.reference.heads import output_slices
from modeld.errors import ModeldError
from modeld.manifest import Slice

TABLE = {
    "plan": slice(0, 4955),
    "lead": slice(5755, 5857),
    "hidden_state": slice(5997, -3),
    "pad": slice(-3, None),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol(protocol: int) -> None:
    # N and slices of the 0.9.7 "notre dame" network.
    assert read_output_slices(encode_slices(TABLE, protocol), 6512) == (
        Slice("plan", 0, 4955),
        Slice("lead", 5755, 5857),
        Slice("hidden_state", 5997, 6509),
        Slice("pad", 6509, 6512),
    )


def test_reference_network_reads_back() -> None:
    slices = read_output_slices(encode_slices(output_slices()), 2580)
    assert {s.name: (s.start, s.stop) for s in slices}["action"] == (2062, 2066)
    assert slices[-1].stop == 2580


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=300),
        st.tuples(st.integers(0, 70000), st.integers(1, 300)),
        max_size=40,
    ),
    st.integers(0, pickle.HIGHEST_PROTOCOL),
)
def test_any_table_survives(table: dict[str, tuple[int, int]], protocol: int) -> None:
    slices = {name: slice(start, start + width) for name, (start, width) in table.items()}
    found = read_output_slices(encode_slices(slices, protocol), 70300)
    assert {s.name: (s.start, s.stop) for s in found} == {
        name: (start, start + width) for name, (start, width) in table.items()
    }


class Malicious:
    """Unpickling this would run a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/modeld-was-here",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (pickle.dumps(Malicious()), "system"),
        (pickle.dumps({"a": Malicious()}), "system"),
        (pickle.dumps({"a": slice(0, Malicious())}), "system"),
        (pickle.dumps(os.system), "only slice"),
        (pickle.dumps([1, 2]), "EMPTY_LIST"),
        (pickle.dumps({"a": 1}), "expected a name and a slice"),
        (pickle.dumps({1: slice(0, 2)}), "expected a name and a slice"),
        (pickle.dumps({"a": slice(0.0, 2.0)}), "BINFLOAT"),
        (pickle.dumps({"a": slice("x", None)}), "no slice of integers"),
        (pickle.dumps({"a": slice(4, 4)}), "outside of 10"),
        (pickle.dumps({"a": slice(0, 9, 3)}), "outside of 10"),
        (pickle.dumps(slice(0, 4)), "expected a table"),
        (b"", "damaged"),
        (b"\x80\x04.", "damaged"),
        (b"\x80\x04}u.", "damaged"),
        (b"\x80\x04R.", "damaged"),
    ],
)
def test_everything_else_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(ModeldError, match=said):
        read_output_slices(base64.b64encode(content).decode(), 10)


def test_not_base64() -> None:
    with pytest.raises(ModeldError, match="base64"):
        read_output_slices("%%%", 10)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_slices_or_an_error(content: bytes) -> None:
    try:
        found = read_output_slices(base64.b64encode(content).decode(), 1000)
    except ModeldError:
        return
    assert all(isinstance(s, Slice) for s in found)


@given(st.data())
def test_damaged_tables_are_errors(data: st.DataObject) -> None:
    content = bytearray(pickle.dumps(TABLE))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_output_slices(base64.b64encode(bytes(content)).decode(), 6512)
    except ModeldError:
        return
    assert all(0 <= s.start < s.stop <= 6512 for s in found)
