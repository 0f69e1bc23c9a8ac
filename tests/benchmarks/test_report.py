"""The benchmark's arithmetic and its report, on made-up timings."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import save_model

from benchmarks.contender import Contender
from benchmarks.measure import Timing, difference, interleave, shares
from benchmarks.peers import random_inputs
from benchmarks.report import Result, chart, geometric_mean, markdown, write
from compile.cli import main


def result(name: str, ours: float, ort: float) -> Result:
    return Result(
        model=name,
        macs=600_000_000,
        launches=80,
        timings={"ours": Timing(ours, 2 * ours, ours), "onnxruntime": Timing(ort, ort, ort)},
        difference=1e-6,
        device_ms=ours,
        peak_gflops=400.0,
        share_by_time=0.5,
        share_dense=0.625,
        arena_bytes=1_500_000,
        build_s=10.0,
        cold_start_s=5.0,
        warm_start_s=0.25,
        peak_kib={"ours": 1024.0, "onnxruntime": 2048.0},
    )


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_ratio_is_theirs_over_ours() -> None:
    assert result("a", 2.0, 3.0).ratio("onnxruntime") == 1.5
    assert result("a", 2.0, 3.0).ratio("openvino") is None


def test_markdown_has_every_model_and_the_means() -> None:
    text = markdown([result("a", 2.0, 4.0), result("b", 1.0, 8.0)], "x86_64")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    assert [row[1].strip() for row in rows[:4]] == ["model", "a", "b", "geometric mean"]
    assert rows[1][9].strip() == "2.00" and rows[2][9].strip() == "8.00"
    assert rows[3][9].strip() == "4.00"
    assert [cell.strip() for cell in rows[1][12:15]] == ["400", "50%", "62%"]


def test_shares_of_the_peak() -> None:
    """One ms at 1 GFLOP for a convolution, one at a quarter for a depthwise one, one without."""
    calls = [("pointwise_a", 500_000_000), ("depthwise_b", 125_000_000), ("E_c", 0)]
    entries = [
        SimpleNamespace(call=SimpleNamespace(kernel=k, nodes=("n",), macs=m), nanoseconds=1_000_000)
        for k, m in calls
    ]
    ours = Mock(executor=SimpleNamespace(kernel_times=lambda: entries))
    rates = iter([1900.0, 2000.0, 9000.0])
    found = shares(ours, {}, lambda: next(rates), 3)
    assert found.peak == 2000.0
    assert found.device_ms == pytest.approx(3.0)
    assert found.dense == pytest.approx(0.5)
    assert found.by_time == pytest.approx((0.5 + 0.125) / 2)
    assert found.kernels[0] == ["pointwise_a", "n", 500_000_000, 1.0]


def test_files_can_be_read_back(tmp_path: Path) -> None:
    results = [result("a", 2.0, 500.0)]
    write(tmp_path / "out", results, "x86_64")
    document = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    assert document["results"][0]["timings"]["onnxruntime"]["median"] == 500.0
    drawing = ElementTree.fromstring(chart(results))  # noqa: S314 (our own text)
    bars = [e for e in drawing if e.tag.endswith("rect")]
    # A ratio of 250 ends where the axis does.
    assert [float(bar.attrib["width"]) for bar in bars] == [390.0]


def test_difference_is_relative_to_the_range() -> None:
    ours = {"y": np.array([0.0, 10.0, 5.5], np.float32)}
    theirs = {"y": np.array([0.0, 10.0, 5.0], np.float32)}
    assert difference(ours, theirs) == pytest.approx(0.05)


def test_peers_run_in_turn() -> None:
    order: list[str] = []

    def peer(name: str, seconds: float) -> Callable[[], float]:
        def run() -> float:
            order.append(name)
            return seconds

        return run

    timings = interleave({"a": peer("a", 0.002), "b": peer("b", 0.004)}, 3, pause_s=0)
    assert order == ["a", "b"] * 13  # ten turns of warm-up
    assert timings == {"a": Timing(2, 2, 2), "b": Timing(4, 4, 4)}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small model and its artifact."""
    folder = tmp_path_factory.mktemp("contender")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 8)) for name in "xy")
    weights = {"w": np.eye(8, dtype=np.float32) * 2}
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = save_model(folder / "product.onnx", [node], [x], [y], weights)
    artifact = folder / "artifact"
    assert main(["build", str(path), "--out", str(artifact)]) == 0
    return path, artifact


@pytest.mark.parametrize("name", ["ours", "onnxruntime"])
def test_a_contender_answers_and_then_stands_still(
    name: str, product: tuple[Path, Path], tmp_path: Path
) -> None:
    with Contender(name, *product, tmp_path) as contender:
        assert 0 < contender() < 10
        (found,) = contender.outputs().values()
        np.testing.assert_allclose(found, 2 * random_inputs(product[0])["x"], rtol=1e-6)
        status = Path(f"/proc/{contender.process.pid}/stat").read_text()
        assert status.rpartition(")")[2].split()[0] == "T"
    assert contender.process.poll() is not None


def test_a_contender_that_cannot_run_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.onnx"
    with pytest.raises(RuntimeError, match=r"onnxruntime cannot run missing\.onnx"):
        Contender("onnxruntime", missing, tmp_path, tmp_path)
