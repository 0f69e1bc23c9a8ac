"""Files that no build can begin with, whatever command reads them: one line, exit status 1."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import save_model, tensor

from compile.cli import main
from compile.rules import broken_rule, external_files, read_model


def add_model(path: Path, weights: onnx.TensorProto | None = None, constant: bool = False) -> Path:
    """y = x + w, with `w` as an initializer or as the value of a Constant node."""
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], name="add")]
    if constant:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=weights))
    save_model(path, nodes, [tensor("x", (4,))], [tensor("y", (4,))])
    if not constant:
        model = onnx.load(path)
        model.graph.initializer.append(weights)
        path.write_bytes(model.SerializeToString())
    return path


def external(**entries: str) -> onnx.TensorProto:
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    weights.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        weights.external_data.add(key=key, value=value)
    return weights


@pytest.mark.parametrize("command", [["coverage"], ["build", "--out", "a"]])
def test_what_may_never_end_is_not_read(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", str(tmp_path / "pipe")):
        assert main([*command, path]) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"modeld-compile: error: {path} is no regular file; name another file"


def renamed(path: Path, old: bytes, new: bytes) -> Path:
    path.write_bytes(path.read_bytes().replace(old, new))
    return path


def relu(path: Path, *nodes: onnx.NodeProto, output: str = "y") -> Path:
    return save_model(path, nodes, [tensor("x", (1, 4))], [tensor(output, (1, 4))])


def node(kind: str, inputs: list[str], output: str) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, [output], name=f"{kind}-{output}")


UNSOUND: dict[str, tuple[Callable[[Path], Path], str]] = {
    "cycle": (
        lambda p: relu(p, node("Add", ["x", "b"], "a"), node("Relu", ["a"], "b"), output="b"),
        "however input 'b' of node: name: Add-a OpType: Add is not output of any previous nodes",
    ),
    "duplicate": (
        lambda p: relu(p, node("Relu", ["x"], "y"), node("Neg", ["x"], "y")),
        "'y' has been used as output names multiple times",
    ),
    "missing input": (
        lambda p: relu(p, node("Add", ["x", "nowhere"], "y")),
        "input 'nowhere' of node: name: Add-y",
    ),
    "no outputs": (
        lambda p: save_model(p, [node("Relu", ["x"], "y")], [tensor("x", (4,))], []),
        "has no outputs",
    ),
    "output is input": (lambda p: relu(p, output="x"), "output x is an input"),
    "weights missing": (lambda p: add_model(p, external(location="gone.bin")), "gone.bin"),
    "weights outside": (lambda p: add_model(p, external(location="../w.bin")), "outside"),
    "weights short": (
        lambda p: add_model(p, external(location="w.bin", length="3000000000")),
        "weights w: bytes 0 to 3000000000 of w.bin are wanted, which has 16",
    ),
    "weights of a node short": (
        lambda p: add_model(p, external(location="w.bin", offset="8", length="16"), constant=True),
        "weights w: bytes 8 to 24 of w.bin are wanted, which has 16",
    ),
    "weights past the end": (
        lambda p: add_model(p, external(location="w.bin", offset="20")),
        "bytes 20 to 20 of w.bin are wanted, which has 16",
    ),
    "weights of another size": (
        lambda p: add_model(p, external(location="w.bin", length="8")),
        "weights w: 8 bytes of w.bin for [4], which needs 16",
    ),
    "weights at no number": (
        lambda p: add_model(p, external(location="w.bin", offset="abc")),
        "weights w: invalid literal",
    ),
    "names that are no text": (
        lambda p: renamed(relu(p, node("Relu", ["x"], "yQQ"), output="yQQ"), b"yQQ", b"y\x8bQ"),
        r"b'Relu-y\x8bQ' is not UTF-8",
    ),
    "a complaint that is no text": (
        lambda p: renamed(relu(p, node("Relu", ["QQQ"], "y")), b"QQQ", b"Q\x8bQ"),
        r"b'Q\x8bQ' is not UTF-8",
    ),
}


@pytest.mark.parametrize("what", UNSOUND)
def test_a_build_and_coverage_refuse_it_alike(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write, said = UNSOUND[what]
    (tmp_path / "w.bin").write_bytes(bytes(16))
    path = write(tmp_path / "m.onnx")
    assert main(["build", str(path), "--out", str(tmp_path / "a")]) == 1
    (line,) = [s for s in capsys.readouterr().err.splitlines() if not s.startswith("[")]
    assert said in line and line.startswith(f"modeld-compile: error: {path}")
    assert main(["coverage", str(path)]) == 1
    (refused,) = [s for s in capsys.readouterr().out.splitlines() if s.startswith("refused ")]
    assert refused.removeprefix("refused ") == line.removeprefix("modeld-compile: error: ")


def test_coverage_refuses_shapes_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", (1, 4))],
        [tensor("y", (1, 4))],
        {"w": np.eye(5, dtype=np.float32)},
    )
    assert main(["coverage", str(path)]) == 1
    assert "Incompatible dimensions for matrix multiplication" in capsys.readouterr().out
    assert main(["coverage", "--json", str(path)]) == 1
    assert '"refused": "' in capsys.readouterr().out


def test_shapes_that_a_model_says_wrongly_are_no_trouble(tmp_path: Path) -> None:
    # Exporters write shapes of another batch size, and builds do not read them.
    path = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [tensor("x", (1, 4))],
        [tensor("y", (2, 4))],
    )
    assert main(["coverage", str(path)]) == 0


def test_sound_weights_in_files_are_found_wherever_they_are_used(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(32))
    weights = external(location="w.bin", offset="16", length="16")
    for constant in (False, True):
        path = add_model(tmp_path / "m.onnx", weights, constant)
        model = read_model(path)
        assert broken_rule(path, model) == ""
        assert external_files(model, tmp_path) == [tmp_path / "w.bin"]
