"""Half precision: rounded where values lie in memory, nowhere else, and never beyond its range."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models import save_model, tensor

from compile.build import build
from compile.cli import main
from compile.precision import ValueRange, measure_ranges, plan_half
from compile.request import BuildRequest
from modeld import Executor, open_artifact
from modeld.errors import ModeldError


def sums_model(path: Path) -> Path:
    """x (1,4096) → y (1,4), sums of it; z (1,2), a product whose first half is beyond float16."""
    rng = np.random.default_rng(3)
    return save_model(
        path,
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], name="sum"),
            helper.make_node("MatMul", ["x", "large"], ["beyond"], name="first"),
            helper.make_node("MatMul", ["beyond", "small"], ["between"], name="second"),
            helper.make_node("MatMul", ["between", "last"], ["z"], name="third"),
        ],
        [tensor("x", (1, 4096))],
        [tensor("y", (1, 4)), tensor("z", (1, 2))],
        {
            # Exact in float16; their sums need more bits than its sums would keep.
            "w": rng.choice([1.0, 1.5], (4096, 4)).astype(np.float32),
            "large": rng.uniform(3e3, 9e3, (4096, 8)).astype(np.float32),
            "small": rng.uniform(1e-4, 2e-4, (8, 6)).astype(np.float32),
            "last": rng.standard_normal((6, 2)).astype(np.float32),
        },
    )


def test_sums_are_exact_and_overflows_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = sums_model(tmp_path / "m.onnx")
    report = tmp_path / "ranges.tsv"
    command = ["build", str(model), "--out", str(tmp_path / "a"), "--dtype", "float16"]
    assert main([*command, "--range-report", str(report)]) == 0
    assert "float32 stay beyond (" in capsys.readouterr().err
    rows = [line.split("\t") for line in report.read_text().splitlines()]
    kept = {row[0]: (row[1], row[-1]) for row in rows[1:]}
    assert kept["beyond"] == ("first", "float32")
    assert kept["between"] == ("second", "float16")
    assert kept["w"] == ("weight", "float16")

    artifact = open_artifact(tmp_path / "a")
    manifest = artifact.manifest
    assert manifest.dtypes.weights == "float16" and manifest.dtypes.accumulate == "float32"
    assert manifest.toolchain.flags == {"dtype": "float16", "float32": "beyond"}
    sizes = {weight.name: weight.bytes for weight in manifest.weights}
    assert sizes == {"w": 2 * 4096 * 4, "large": 2 * 4096 * 8, "small": 2 * 48, "last": 2 * 12}
    found = Executor(artifact).run("run_model", {"x": np.full((1, 4096), 1 / 64, np.float32)})
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model).graph.initializer}
    np.testing.assert_array_equal(found["y"][0], weights["w"].sum(0) / 64)
    half = {name: array.astype(np.float16).astype(np.float64) for name, array in weights.items()}
    between = (half["large"].sum(0) / 64 @ half["small"]).astype(np.float16)
    np.testing.assert_allclose(found["z"][0], between @ half["last"], rtol=2e-3)


def stored(nodes: list[onnx.NodeProto]) -> set[str]:
    graph = helper.make_graph(
        nodes,
        "graph",
        [tensor("x", (1, 4, 8, 8))],
        [tensor("y", (1, 4, 8, 8)), tensor("z", (1, 4, 8, 8))],
    )
    return set(plan_half(helper.make_model(graph), []).stored)


def conv(source: str, to: str) -> onnx.NodeProto:
    return helper.make_node("Conv", [source, "w"], [to])


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        # The activation is computed in the registers of the kernel before it.
        ([conv("x", "a"), helper.make_node("Relu", ["a"], ["b"]), conv("b", "y")], {"b"}),
        # SiLU, spelled out: both its parts stay there too.
        (
            [
                conv("x", "a"),
                helper.make_node("Sigmoid", ["a"], ["s"]),
                helper.make_node("Mul", ["a", "s"], ["b"]),
                conv("b", "y"),
            ],
            {"b"},
        ),
        # Of two sums that are added one must wait in memory.
        (
            [
                conv("x", "a"),
                conv("x", "b"),
                helper.make_node("Add", ["a", "b"], ["c"]),
                conv("c", "y"),
            ],
            {"a", "c"},
        ),
        # Preparing the input is cheaper than storing it; moved values are read where they lie.
        (
            [
                helper.make_node("Mul", ["x", "scale"], ["a"]),
                conv("a", "b"),
                helper.make_node("Transpose", ["b"], ["c"]),
                conv("c", "y"),
            ],
            {"b"},
        ),
        # An operator with a branch of its own that leaves the graph.
        (
            [conv("x", "a"), helper.make_node("Relu", ["a"], ["y"]), conv("a", "z")],
            {"a"},
        ),
    ],
    ids=["relu", "silu", "join", "movement", "two readers"],
)
def test_values_in_memory_are_stored(nodes: list[onnx.NodeProto], expected: set[str]) -> None:
    assert stored(nodes) == expected


def test_ranges(tmp_path: Path) -> None:
    model = onnx.load(sums_model(tmp_path / "m.onnx"))
    samples = [{"x": np.full((1, 4096), value, np.float32)} for value in (1e-12, 1.0)]
    ranges = {r.tensor: r for r in measure_ranges(model, tmp_path, {}, samples)}
    assert list(ranges) == ["w", "large", "small", "last", "y", "beyond", "between", "z"]
    beyond = ranges["beyond"]
    assert beyond.overflowing == beyond.elements == 8 and not beyond.fits
    assert beyond.largest == pytest.approx(2.4e7, rel=0.1)
    assert beyond.smallest == pytest.approx(2.4e-5, rel=0.1) and beyond.vanishing == 8
    assert ranges["w"].fits and ranges["w"].largest == 1.5


@pytest.mark.parametrize(
    ("node", "largest", "fits"),
    [
        ("", 0.0, True),
        ("", 1e-5, False),
        ("", 65504.0, True),
        ("", 65536.0, False),
        # Another input may give four times as much.
        ("n", 16376.0, True),
        ("n", 16384.0, False),
    ],
)
def test_what_float16_holds(node: str, largest: float, fits: bool) -> None:
    assert ValueRange("t", node, 4, largest, largest, 0, 0).fits is fits


def test_report_without_float16_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = sums_model(tmp_path / "m.onnx")
    command = ["build", str(model), "--out", str(tmp_path / "a"), "--range-report", "r.tsv"]
    assert main(command) == 1
    assert "--range-report is about --dtype float16; give both" in capsys.readouterr().err


def test_unknown_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compile.precision.SECOND_IMPLEMENTATIONS", ())
    with pytest.raises(ModeldError, match="--dtype float16 needs the model's values"):
        build(BuildRequest(sums_model(tmp_path / "m.onnx"), tmp_path / "a", dtype="float16"))
