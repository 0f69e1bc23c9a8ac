"""Looking inside: which nodes a kernel computes, what it costs, what changed."""

import json
from pathlib import Path

import onnx
import pytest
from onnx import helper
from onnx_models import conv_model, save_model, tensor

from compile import inspect
from compile.attribution import node_macs
from compile.build import build
from compile.cli import main
from compile.request import BuildRequest
from modeld.artifact import Artifact, open_artifact
from modeld.executor import Executor
from modeld.opencl import select_device


@pytest.fixture(scope="module")
def conv(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("conv")
    # With tinygrad's kernels alone: their nodes have to be found, and weights lie as in the model.
    request = BuildRequest(conv_model(folder / "conv.onnx"), folder / "artifact", tuned=False)
    build(request)
    return open_artifact(folder / "artifact")


@pytest.mark.parametrize("tuned", [False, True])
def test_every_node_is_in_a_launch(tuned: bool, tmp_path: Path) -> None:
    model = conv_model(tmp_path / "conv.onnx")
    build(BuildRequest(model, tmp_path / "artifact", tuned=tuned))
    calls = inspect.model_entry(open_artifact(tmp_path / "artifact").manifest).calls
    assert {node for call in calls for node in call.nodes} == {"conv", "relu", "pool", "flatten"}
    # 4 outputs × 8 × 16 pixels × (3 × 3 × 3) weights.
    assert sum(call.macs for call in calls) == 4 * 8 * 16 * 27


@pytest.mark.parametrize(
    ("op", "shapes", "attributes", "macs"),
    [
        ("Conv", ((1, 8, 10, 10), (16, 8, 3, 3), (1, 16, 10, 10)), {}, 16 * 100 * 72),
        ("Conv", ((1, 8, 10, 10), (8, 1, 5, 5), (1, 8, 10, 10)), {"group": 8}, 8 * 100 * 25),
        ("ConvTranspose", ((1, 8, 5, 5), (8, 4, 2, 2), (1, 4, 10, 10)), {}, 200 * 16),
        ("MatMul", ((3, 5, 7), (3, 7, 2), (3, 5, 2)), {}, 3 * 5 * 2 * 7),
        ("Gemm", ((5, 7), (2, 7), (5, 2)), {"transB": 1}, 5 * 2 * 7),
        ("Gemm", ((7, 5), (7, 2), (5, 2)), {"transA": 1}, 5 * 2 * 7),
        ("Add", ((5, 7), (5, 7), (5, 7)), {}, 0),
    ],
)
def test_multiply_accumulates(
    op: str, shapes: tuple[tuple[int, ...], ...], attributes: dict[str, int], macs: int
) -> None:
    node = helper.make_node(op, ["a", "b"], ["c"], **attributes)
    assert node_macs(node, dict(zip("abc", shapes, strict=True))) == macs


def test_report_shows_all_sections(conv: Artifact) -> None:
    text = inspect.report(conv)
    for expected in (
        conv.digest,
        "contract: generic",
        "input   x  float32[1, 3, 8, 16]",
        "output  y  float32[1, 4]",
        "memory:",
        "differs from onnxruntime",
        "[conv, relu",
    ):
        assert expected in text
    assert "share" not in text


def test_measured_report(conv: Artifact) -> None:
    times = inspect.measure(conv, Executor(conv, select_device(), profile=True))
    assert len(times) == conv.manifest.budget.kernels and min(times) > 0
    assert "share" in inspect.report(conv, times)
    assert inspect.summary(conv, times)["microseconds"] == times


def test_json_is_the_manifest_and_totals(
    conv: Artifact, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(conv.directory), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["identity"] == conv.digest
    assert shown["manifest"] == json.loads(conv.manifest_bytes)
    assert shown["totals"]["macs"] == 4 * 8 * 16 * 27
    assert shown["totals"]["weight_bytes"] == 4 * (4 * 27 + 4)


def test_explain_names_kernel_and_memory(
    conv: Artifact, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(conv.directory), "relu"]) == 0
    shown = capsys.readouterr().out
    assert "__kernel void" in shown and "inputs[0:1536]" in shown
    assert main(["explain", str(conv.directory), "rely"]) == 1
    assert "no kernel computes a node named 'rely'; close: relu" in capsys.readouterr().err


def test_diff(conv: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = str(conv.directory)
    assert main(["diff", same, same]) == 0
    assert capsys.readouterr().out == "no difference\n"
    # Another first weight: only the weights, the known runs and the source may change.
    model = onnx.load(conv_model(tmp_path / "conv.onnx"))
    model.graph.initializer[0].raw_data = bytes(4) + model.graph.initializer[0].raw_data[4:]
    onnx.save(model, tmp_path / "conv.onnx")
    build(BuildRequest(tmp_path / "conv.onnx", tmp_path / "other", tuned=False))
    assert main(["diff", same, str(tmp_path / "other")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "source.files.conv.onnx.sha256",
        "reference.safetensors",
        "weights.safetensors",
    ]


def test_diff_names_kernels_and_shapes(
    conv: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_model(
        tmp_path / "relu.onnx",
        [helper.make_node("Relu", ["x"], ["y"], name="relu")],
        [tensor("x", (1, 3, 8, 8))],
        [tensor("y", (1, 3, 8, 8))],
    )
    build(BuildRequest(model, tmp_path / "relu"))
    assert main(["diff", str(conv.directory), str(tmp_path / "relu")]) == 1
    shown = capsys.readouterr().out
    assert "contract.inputs.x.shape" in shown
    assert "1 → 0 launches" in shown and "0 → 1 launches" in shown
