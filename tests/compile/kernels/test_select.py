"""Builds with our kernels, with and without a tuning file, and with tinygrad's alone."""

from dataclasses import replace
from pathlib import Path

import pytest
from onnx_models import conv_model

from compile.build import build
from compile.request import BuildRequest
from compile.tune import load_tuning
from modeld.artifact import open_artifact
from modeld.errors import ModeldError
from modeld.opencl import describe_device, select_device


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return conv_model(tmp_path_factory.mktemp("model") / "conv.onnx")


def test_a_second_build_from_the_tuning_file_is_the_same(model: Path, tmp_path: Path) -> None:
    tuning = tmp_path / "tiles.json"
    timed = build(BuildRequest(model, tmp_path / "a", tuning=tuning, tune_budget_s=30))
    content = tuning.read_bytes()
    again = build(BuildRequest(model, tmp_path / "b", tuning=tuning))
    assert timed == again
    assert tuning.read_bytes() == content
    toolchain = open_artifact(tmp_path / "b").manifest.toolchain
    assert toolchain.tuning_sha256 == load_tuning(tuning).digest != ""


def test_launches_name_the_nodes_they_compute(model: Path, tmp_path: Path) -> None:
    build(BuildRequest(model, tmp_path / "a"))
    manifest = open_artifact(tmp_path / "a").manifest
    call = manifest.entry_points[0].calls[0]
    assert call.kernel.startswith("conv3x3_3_4_")
    assert len(call.nodes) == 2 and call.macs == 4 * 8 * 16 * 27


def test_a_gpu_gets_kernels_for_work_groups(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_gpu = replace(describe_device(select_device()), device_class="gpu")
    monkeypatch.setattr("compile.kernels.select.describe_device", lambda device: on_gpu)
    build(BuildRequest(model, tmp_path / "a"))
    call = open_artifact(tmp_path / "a").manifest.entry_points[0].calls[0]
    assert call.kernel.startswith("group_conv3x3_3_4_")
    assert call.local_size == (64, 1, 1)


def test_not_tuned_has_no_kernel_of_ours(model: Path, tmp_path: Path) -> None:
    build(BuildRequest(model, tmp_path / "a", tuned=False))
    manifest = open_artifact(tmp_path / "a").manifest
    assert not any(c.kernel.startswith("conv") for e in manifest.entry_points for c in e.calls)
    assert manifest.toolchain.flags["tuned"] == "no"
    assert manifest.toolchain.tuning_sha256 == ""


@pytest.mark.parametrize("wrong", [{"tuning": None}, {"tuned": False}])
def test_a_budget_needs_a_file_to_write(
    wrong: dict[str, object], model: Path, tmp_path: Path
) -> None:
    options = {"tuning": tmp_path / "t.json", "tune_budget_s": 5.0, **wrong}
    with pytest.raises(ModeldError, match="--tune needs --tuning FILE"):
        build(BuildRequest(model, tmp_path / "a", **options))  # type: ignore[arg-type]
    assert not (tmp_path / "a").exists()
