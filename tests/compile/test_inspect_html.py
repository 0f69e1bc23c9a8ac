from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_artifact import toy_files, toy_manifest, write_toy
from toy_driver import write_driver

from compile.cli import main
from compile.dataflow import depths, stays
from compile.inspect_html import page
from modeld.artifact import Artifact, open_artifact
from modeld.manifest import Argument, Call

VOID = {"meta", "rect", "circle", "path"}


class Strict(HTMLParser):
    """Every element that opens closes, in order; keeps what a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.active: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.active += [name for name, _ in attrs if name in ("src", "href") or name[:2] == "on"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(text: str) -> Strict:
    parser = Strict()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert parser.active == []
    assert "script" not in parser.seen
    assert "url(" not in text
    return parser


def call(*arguments: Argument) -> Call:
    return Call("kernels/x.cl", "k", (1,), None, arguments, (), 0)


def write(offset: int, size: int = 512) -> Argument:
    return Argument("arena", offset, size, "write")


def read(offset: int, size: int = 512) -> Argument:
    return Argument("arena", offset, size, "read")


def test_stay_ends_where_its_bytes_are_written_again() -> None:
    calls = [
        call(write(0, 1024)),
        call(write(1024), read(0)),
        call(write(512), read(1024)),
        call(write(0, 256), read(512), read(0)),
        call(write(2048), read(0, 256)),
    ]
    found = stays(calls)
    assert [(s.offset, s.born, s.readers) for s in found] == [
        (0, 0, [1]),
        (1024, 1, [2]),
        (512, 2, [3]),
        (0, 3, [4]),
        (2048, 4, []),
    ]
    assert depths(calls, found) == [0, 1, 2, 3, 4]


LAUNCHES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(1, 3), st.lists(st.integers(0, 9), max_size=3)),
    max_size=12,
)


@given(LAUNCHES)
def test_readers_are_those_that_see_a_byte_of_the_tensor(
    launches: list[tuple[int, int, list[int]]],
) -> None:
    calls = [
        call(write(start, size), *(read(r, 1) for r in reads)) for start, size, reads in launches
    ]
    # Byte by byte: who wrote it last, unless a later launch overwrote a part of that tensor.
    owner: dict[int, int] = {}
    expected: dict[int, list[int]] = {}
    for number, (start, size, reads) in enumerate(launches):
        for place in reads:
            if place in owner:
                expected.setdefault(owner[place], []).append(number)
        hit = {owner[b] for b in range(start, start + size) if b in owner}
        owner = {b: writer for b, writer in owner.items() if writer not in hit}
        owner |= dict.fromkeys(range(start, start + size), number)
    assert {s.born: s.readers for s in stays(calls) if s.readers} == expected


@pytest.mark.parametrize("times", [None, [12.5]])
def test_page_shows_launches_and_stands_alone(tmp_path: Path, times: list[float] | None) -> None:
    write_driver(tmp_path / "driver")
    text = page(open_artifact(tmp_path / "driver"), times)
    found = parsed(text)
    assert found.seen["circle"] == 1
    assert "toy-driver" in found.text
    assert "hidden_state" in found.text
    assert ("12.5" in found.text) == (times is not None)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>\"'"
    manifest = toy_manifest(toy_files(), name=name)
    found = parsed(page(Artifact(tmp_path, manifest, "sha256:0", b"")))
    assert name in found.text


def test_command_writes_the_page_or_says_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_toy(tmp_path / "toy")
    out = tmp_path / "toy.html"
    assert main(["inspect", str(tmp_path / "toy"), "--measure", "--html", str(out)]) == 0
    assert "GMAC/s" in parsed(out.read_text()).text
    missing = str(tmp_path / "none" / "x.html")
    assert main(["inspect", str(tmp_path / "toy"), "--html", missing]) == 1
    assert "x.html cannot be written (No such file" in capsys.readouterr().err
