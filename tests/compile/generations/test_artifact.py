"""Generations through the whole path: files, artifact on disk, executor, daemon's contract."""

from pathlib import Path

import numpy as np
import pytest
from driving_generations import File, Host, drawn, host_turn, run_of, write_all
from driving_interfaces import INTERFACES

from compile.build import build
from compile.request import BuildRequest
from modeld import Executor, open_artifact
from modeld.daemon import check_contract
from modeld.manifest import Camera
from modeld.opencl import select_device

FRAMES = 200
# One of each kind; the others take minutes.
USUAL = ("2024-04", "2025-07")


def check_artifact(generation: str, files: list[File], folder: Path) -> None:
    paths = write_all(files, folder)
    request = BuildRequest(
        paths[0], folder / "artifact", policies=tuple(paths[1:]), cameras=(Camera(64, 48),)
    )
    build(request)
    executor = Executor(open_artifact(folder / "artifact"), select_device())
    contract = executor.contract
    assert (contract.kind, contract.generation) == ("driving", generation)
    check_contract(contract)
    assert all(tensor.meaning for tensor in (*contract.inputs, *contract.outputs))
    wanted = {t.name for t in contract.inputs} - {pair.input for pair in contract.state}

    host, runs = Host(files), [run_of(path) for path in paths]
    rtol = 1e-6 if "lat_planner_state" in host.inputs else 0
    rng = np.random.default_rng(6)
    for frame in range(FRAMES):
        given = drawn(rng)
        feeds = {name: array for name, array in given.items() if name in wanted}
        found = executor.run("run_model", feeds)["outputs"]
        expected = host_turn(host, files, runs, given)
        np.testing.assert_allclose(found, expected, rtol, err_msg=f"frame {frame}")
    executor.reset()
    fresh = host_turn(Host(files), files, runs, given)
    np.testing.assert_allclose(executor.run("run_model", feeds)["outputs"], fresh, rtol)


@pytest.mark.parametrize("name", USUAL)
def test_usual_generations(name: str, tmp_path: Path) -> None:
    check_artifact(*INTERFACES[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in INTERFACES if name not in USUAL])
def test_all_generations(name: str, tmp_path: Path) -> None:
    check_artifact(*INTERFACES[name], tmp_path)
