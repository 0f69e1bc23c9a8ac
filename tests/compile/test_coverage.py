"""Everything that stops a build, at once."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import save_model, tensor

from compile.cli import main
from compile.coverage import check_coverage, coverage
from modeld.errors import ModeldError


@pytest.fixture
def troubled(tmp_path: Path) -> Path:
    """A model with something of everything."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="fine"),
        helper.make_node("Wobble", ["a"], ["b"], name="w1", domain="com.example"),
        helper.make_node("Wobble", ["b"], ["c"], name="w2", domain="com.example"),
        helper.make_node("RandomNormalLike", ["c"], ["d"], name="noise"),
        helper.make_node("StringNormalizer", ["t"], ["u"], name="words"),
        helper.make_node("Reshape", ["d", "s"], ["y"], name="shaped"),
    ]
    return save_model(
        tmp_path / "m.onnx",
        nodes,
        [
            tensor("x", (4,)),
            tensor("s", (2,), TensorProto.INT64),
            tensor("t", (1,), TensorProto.STRING),
        ],
        [tensor("y", (2, 2)), tensor("u", (1,), TensorProto.STRING)],
        opsets={"": 17, "com.example": 2},
    )


def test_findings_are_grouped_with_opset_count_and_nodes(troubled: Path) -> None:
    found = coverage(onnx.load(troubled))
    missing = {operator.name: operator for operator in found.unsupported}
    assert set(missing) == {"Wobble", "RandomNormalLike", "StringNormalizer"}
    assert missing["Wobble"].nodes == ("w1", "w2")
    assert missing["Wobble"].opset == 2
    assert missing["Wobble"].reason.startswith("custom domain")
    assert missing["RandomNormalLike"].reason.startswith("random values")
    assert missing["StringNormalizer"].reason == "operator not supported"
    assert found.shape_inputs == {"s": ("shaped",)}
    assert found.types == {"t": "STRING", "u": "STRING"}
    assert not found.complete


def test_one_error_names_them_all(troubled: Path) -> None:
    with pytest.raises(ModeldError) as error:
        check_coverage(onnx.load(troubled))
    text = str(error.value)
    assert text.startswith("4 unsupported nodes: ")
    for part in ("w1, w2", "noise", "words", "t has element type STRING"):
        assert part in text
    assert "fine" not in text


def test_element_types_alone_are_no_nodes(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Identity", ["t"], ["u"])],
        [tensor("t", (1,), TensorProto.STRING)],
        [tensor("u", (1,), TensorProto.STRING)],
    )
    expected = "unsupported element types: t has element type STRING; u has element type STRING"
    with pytest.raises(ModeldError, match=f"^{expected}$"):
        check_coverage(onnx.load(path))


def test_nodes_of_subgraphs_and_functions_count(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Wobble", ["x"], ["z"], name="inner", domain="com.example")],
        "branch",
        [],
        [tensor("z", (1,))],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    path = save_model(
        tmp_path / "m.onnx",
        [node],
        [tensor("x", (1,)), tensor("c", (), TensorProto.BOOL)],
        [tensor("y", (1,))],
        opsets={"": 17, "com.example": 1},
    )
    assert [operator.nodes for operator in coverage(onnx.load(path)).unsupported] == [
        ("inner", "inner")
    ]


def test_attributes_that_change_the_meaning_stop_a_build(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"], name="odd", slope=0.1)],
        [tensor("x", (1,))],
        [tensor("y", (1,))],
    )
    (operator,) = coverage(onnx.load(path)).unsupported
    assert "not supported with slope" in operator.reason


def test_the_command_lists_and_fails(troubled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", str(troubled)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "ok      ai.onnx Relu (opset 17), 1×" in lines
    assert any(line.startswith("missing com.example Wobble (opset 2), 2×: ") for line in lines)
    assert any(line.startswith("freeze  s (--const s=FILE.safetensors)") for line in lines)
    assert main(["coverage", "--json", str(troubled)]) == 1
    assert json.loads(capsys.readouterr().out)["types"]["t"] == "STRING"


def test_one_node_is_not_nodes(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Wobble", ["x"], ["y"], domain="com.example")],
        [tensor("x", (1,))],
        [tensor("y", (1,))],
        opsets={"": 17, "com.example": 1},
    )
    with pytest.raises(ModeldError, match=r"^1 unsupported node: "):
        check_coverage(onnx.load(path))


def test_the_command_succeeds_for_a_model_without_trouble(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [tensor("x", (2,))],
        [tensor("y", (2,))],
        {"w": np.ones(2, np.float32)},
    )
    assert main(["coverage", str(path)]) == 0
    assert capsys.readouterr().out == "ok      ai.onnx Add (opset 17), 1×\n"


def save_unknown(path: Path, place: str) -> Path:
    """Operators that no version of ONNX has, in the graph or in the bodies of If or Loop."""
    unknown = [
        helper.make_node("Frobnicate", ["x"], ["u"], name="first"),
        helper.make_node("Twiddle", ["u"], ["v"], name="second"),
        helper.make_node("Frobnicate", ["v"], ["z"], name="third"),
    ]
    nodes = [*unknown, helper.make_node("Relu", ["z"], ["y"], name="fine")]
    if place == "If":
        branch = helper.make_graph(unknown, "branch", [], [tensor("z", (1,))])
        other = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["o"], name="fine")], "other", [], [tensor("o", (1,))]
        )
        nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)]
    if place == "Loop":
        body = helper.make_graph(
            [*unknown, helper.make_node("Identity", ["go"], ["on"])],
            "body",
            [tensor("turn", (), TensorProto.INT64), tensor("go", (), TensorProto.BOOL)],
            [tensor("on", (), TensorProto.BOOL), tensor("z", (1,))],
        )
        nodes = [helper.make_node("Loop", ["n", "c"], ["y"], body=body)]
    return save_model(
        path,
        nodes,
        [tensor("x", (1,)), tensor("c", (), TensorProto.BOOL)],
        [tensor("y", (1,) if place != "Loop" else (3, 1))],
        {"n": np.array(3, np.int64)},
    )


@pytest.mark.parametrize("place", ["graph", "If", "Loop"])
def test_a_build_names_operators_that_onnx_does_not_know_as_coverage_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    model = save_unknown(tmp_path / "m.onnx", place)
    assert main(["coverage", str(model)]) == 1
    listed = capsys.readouterr().out.splitlines()
    missing = [line.removeprefix("missing ") for line in listed if line.startswith("missing ")]
    assert missing == [
        "ai.onnx Frobnicate (opset 17), 2×: operator not supported [first, third]",
        "ai.onnx Twiddle (opset 17), 1×: operator not supported [second]",
    ]
    assert main(["build", str(model), "--out", str(tmp_path / "a")]) == 1
    (line,) = [s for s in capsys.readouterr().err.splitlines() if not s.startswith("[")]
    assert line == f"modeld-compile: error: 3 unsupported nodes: {'; '.join(missing)}"
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_attributes_of_local_functions_take_their_values_from_the_call() -> None:
    inner = helper.make_node("LeakyRelu", ["x"], ["y"], name="inner")
    inner.attribute.add(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    function = helper.make_function("local", "Leaky", ["x"], ["y"], [inner], opsets[:1], ["alpha"])
    call = helper.make_node("Leaky", ["x"], ["y"], domain="local", alpha=0.5)
    graph = helper.make_graph([call], "graph", [tensor("x", (2,))], [tensor("y", (2,))])
    model = helper.make_model(graph, functions=[function], opset_imports=opsets)
    onnx.checker.check_model(model)
    (operator,) = coverage(model).operators
    assert (operator.nodes, operator.reason) == (("inner",), "")


def test_element_types_without_a_name_are_numbers(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [tensor("x", (1,))], []
    )
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.elem_type = 99
    assert coverage(model).types == {"x": "99"}


@pytest.mark.parametrize("content", [None, b"not a model", b""])
def test_what_is_no_model_is_one_line(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    if content is not None:
        path.write_bytes(content)
    assert main(["coverage", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"modeld-compile: error: {path}")
