"""Trained weights in the package: whole, small, with their record, and used."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import save_file

from compile import reference
from compile.cli import main
from compile.reference import build_reference
from compile.reference.shipped import FOLDER, release, rounded, shipped, shipped_sizes
from compile.reference.topology import SMALL, TOPOLOGIES
from compile.reference.weights import check, seeded
from modeld.errors import ModeldError

_MOST_BYTES = 12_000_000


def test_what_the_package_carries_is_whole_and_says_how_it_was_made() -> None:
    for size in shipped_sizes():
        weights, record = shipped(size)
        check(weights, TOPOLOGIES[size])
        assert (FOLDER / f"{size}.safetensors").stat().st_size <= _MOST_BYTES
        assert record["config"]["network.size"] == record["size"] == size
        assert record["licence"] == "MIT"
        assert len(record["checkpoint"]["sha256"]) == 64
        assert {"data.seed", "run.seed", "phases[0].steps"} <= record["config"].keys()
        assert record["evaluation"]["drives"] >= 64
        assert len(record["evaluation"]["goals"]) == 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    release(seeded(SMALL, 5), {"size": "small"}, "small", tmp_path / "package")
    return tmp_path / "package"


def test_weights_come_back_rounded_to_float16(folder: Path) -> None:
    weights, record = shipped("small", folder)
    expected = rounded(seeded(SMALL, 5))
    assert all(np.array_equal(weights[name], expected[name]) for name in expected)
    assert record["size"] == "small"


def test_other_bytes_than_the_record_names_are_refused(folder: Path) -> None:
    path = folder / "small.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModeldError, match=r"has sha256 \w{12}, its record says \w{12}"):
        shipped("small", folder)
    (folder / "small.json").write_text("{")
    with pytest.raises(ModeldError, match="trained weights of size small cannot be read"):
        shipped("small", folder)


def test_the_reference_network_has_trained_weights_if_there_are_some(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "shipped_sizes", lambda: shipped_sizes(folder))
    monkeypatch.setattr(reference, "shipped", lambda size: shipped(size, folder))
    digest = json.loads((folder / "small.json").read_text())["sha256"][:12]
    expected = rounded(seeded(SMALL, 5))
    for model, label, same in (
        (build_reference("small"), f"trained/small/{digest}", True),
        (build_reference("small", seed=0), "untrained/small/seed-0", False),
        (build_reference("large"), "untrained/large/seed-0", False),
    ):
        stored = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        metadata = {entry.key: entry.value for entry in model.metadata_props}
        assert metadata["model_checkpoint"] == label
        assert np.array_equal(stored["feature.weight"], expected["feature.weight"]) == same


def test_weights_and_seed_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    save_file(seeded(SMALL, 5), tmp_path / "w.safetensors")
    for arguments, label in (
        (["--weights", str(tmp_path / "w.safetensors")], "given/small"),
        (["--seed", "3"], "untrained/small/seed-3"),
    ):
        assert main(["reference", *arguments, "--out", str(path)]) == 0
        metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
        assert metadata["model_checkpoint"] == label
