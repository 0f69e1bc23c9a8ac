"""Reading ONNX files: shapes made static, files recorded, everything wrong named in one line."""

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import conv_model, save_model, tensor

from compile.coverage import check_coverage
from compile.importer import import_model
from compile.operators import is_half, is_quantised
from modeld.errors import ModeldError


def relu_model(path: Path, shape: tuple[int | str, ...], **options: object) -> Path:
    return save_model(
        path,
        [helper.make_node("Relu", ["x"], ["y"], name="relu")],
        [tensor("x", shape)],
        [tensor("y", shape)],
        **options,  # type: ignore[arg-type]
    )


def test_source_is_recorded(tmp_path: Path) -> None:
    path = relu_model(tmp_path / "m.onnx", (2, 3), metadata={"a": "b"})
    imported = import_model(path, {})
    (file,) = imported.source.files
    assert (file.name, file.bytes) == ("m.onnx", path.stat().st_size)
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert imported.source.opsets == {"ai.onnx": 17}
    assert imported.source.metadata == {"a": "b"}
    assert imported.name == "m"


def test_external_weights_are_recorded_and_found(tmp_path: Path) -> None:
    path = conv_model(tmp_path / "m.onnx")
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    names = [file.name for file in import_model(path, {}).source.files]
    assert names == ["m.onnx", "m.data"]
    (tmp_path / "m.data").unlink()
    with pytest.raises(ModeldError, match=r"m\.data"):
        import_model(path, {})


def test_symbolic_dimensions_are_named_all_at_once(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "z"], ["y"])],
        [tensor("x", ("batch", "width")), tensor("z", ("batch", 1))],
        [tensor("y", ("batch", "width"))],
    )
    with pytest.raises(ModeldError, match=r"batch \(of x, z\); width \(of x\); give --dim batch=N"):
        import_model(path, {})
    imported = import_model(path, {"batch": 2, "width": 5})
    shapes = [
        [d.dim_value for d in v.type.tensor_type.shape.dim] for v in imported.model.graph.input
    ]
    assert shapes == [[2, 5], [2, 1]]


def test_nameless_dimension_is_named_by_its_place(tmp_path: Path) -> None:
    path = relu_model(tmp_path / "m.onnx", (1, 3))
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    onnx.save(model, path)
    with pytest.raises(ModeldError, match=r"--dim x\.0=N"):
        import_model(path, {})
    imported = import_model(path, {"x.0": 4})
    assert imported.model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 4


def test_negative_dimension_is_an_unknown_one(tmp_path: Path) -> None:
    path = relu_model(tmp_path / "m.onnx", (-3, 4))
    with pytest.raises(ModeldError, match=r"x\.0 \(of x\); give --dim x\.0=N"):
        import_model(path, {})
    imported = import_model(path, {"x.0": 2})
    assert imported.model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


def test_dimension_that_nothing_has(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match="--dim batch=1: no input has"):
        import_model(relu_model(tmp_path / "m.onnx", (1, 3)), {"batch": 1})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"this is no model", "not an ONNX model"),
        (b"", "not an ONNX model"),
        (b"\x08\x08", "not an ONNX model"),
        (b"\xff" * 100, "not an ONNX model"),
    ],
)
def test_files_that_are_no_model(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModeldError, match=said) as error:
        import_model(path, {})
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match="No such file"):
        import_model(tmp_path / "m.onnx", {})
    with pytest.raises(ModeldError, match="Is a directory"):
        import_model(tmp_path, {})


def test_truncated_model(tmp_path: Path) -> None:
    path = conv_model(tmp_path / "m.onnx")
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ModeldError, match=r"m\.onnx"):
        import_model(path, {})


def test_graph_that_breaks_onnx_rules(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["nowhere"], ["y"], name="relu")],
        [tensor("x", (1,))],
        [tensor("y", (1,))],
    )
    with pytest.raises(ModeldError, match="breaks the ONNX rules") as error:
        import_model(path, {})
    assert "\n" not in str(error.value)


def test_missing_element_type_breaks_onnx_rules(tmp_path: Path) -> None:
    # ONNX knows every operator here: what the checker says is the cause.
    model = onnx.load(relu_model(tmp_path / "m.onnx", (1,)))
    model.graph.input[0].type.tensor_type.ClearField("elem_type")
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ModeldError, match=r"breaks the ONNX rules \(.*elem_type"):
        import_model(tmp_path / "m.onnx", {})


def test_training_nodes_are_refused_by_name(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node(
                "Momentum",
                ["r", "t", "x", "g", "v"],
                ["y", "w"],
                name="step",
                domain="ai.onnx.preview.training",
                alpha=0.9,
                beta=0.1,
                mode="standard",
                norm_coefficient=0.0,
            )
        ],
        [tensor("r", ()), tensor("t", (), TensorProto.INT64)]
        + [tensor(name, (2,)) for name in "xgv"],
        [tensor("y", (2,)), tensor("w", (2,))],
        opsets={"": 17, "ai.onnx.preview.training": 1},
    )
    with pytest.raises(ModeldError, match=r"step \(Momentum\).*export the model for inference"):
        import_model(path, {})


def test_every_unsupported_node_is_named_with_its_opset(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Frobnicate", ["x"], ["a"], name="first", domain="com.example"),
            helper.make_node("Relu", ["a"], ["b"], name="fine"),
            helper.make_node("Twiddle", ["b"], ["y"], name="second", domain="com.example"),
        ],
        [tensor("x", (2,))],
        [tensor("y", (2,))],
        opsets={"": 17, "com.example": 3},
    )
    imported = import_model(path, {})
    with pytest.raises(ModeldError) as error:
        check_coverage(imported.model)
    text = str(error.value)
    assert "2 unsupported nodes" in text
    assert "com.example Frobnicate (opset 3), 1×: custom domain" in text
    assert "com.example Twiddle (opset 3), 1×: custom domain" in text
    assert "[first]" in text
    assert "[second]" in text
    assert "fine" not in text


def test_quantised_models_are_recognised(tmp_path: Path) -> None:
    assert not is_quantised(onnx.load(conv_model(tmp_path / "m.onnx")))
    path = save_model(
        tmp_path / "q.onnx",
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])],
        [tensor("x", (2,))],
        [tensor("y", (2,), TensorProto.UINT8)],
        {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)},
    )
    assert is_quantised(onnx.load(path))


def test_half_precision_inside_is_recognised(tmp_path: Path) -> None:
    assert not is_half(onnx.load(conv_model(tmp_path / "m.onnx")))
    cast = helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16)
    weight = {"w": np.ones(2, np.float16)}
    add = helper.make_node("Add", ["h", "w"], ["y"])
    inputs, outputs = [tensor("x", (2,))], [tensor("y", (2,), TensorProto.FLOAT16)]
    assert is_half(onnx.load(save_model(tmp_path / "w.onnx", [cast, add], inputs, outputs, weight)))
    half = [tensor("h", (2,), TensorProto.FLOAT16)]
    assert is_half(onnx.load(save_model(tmp_path / "c.onnx", [cast], inputs, half)))
