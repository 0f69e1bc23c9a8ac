"""Every generation, wrapped, does what its host did: 200 frames, value by value."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from driving_generations import Array, File, Host, drawn, host_turn, run_of, session_of, write_all
from driving_interfaces import INTERFACES

from compile.generations import TODAY
from compile.importer import import_model
from modeld.errors import ModeldError

FRAMES = 200


def check_against_host(files: list[File], folder: Path) -> str:
    """Compare a wrapped network with its files as the host ran them; returns the generation."""
    paths = write_all(files, folder)
    imported = import_model(paths[0], {}, paths[1:])
    onnx.checker.check_model(imported.model, full_check=True)
    wrapped = session_of(imported.model.SerializeToString())
    state: dict[str, Array] = {
        i.name: np.zeros(i.shape, np.uint8 if "uint8" in i.type else np.float32)
        for i in wrapped.get_inputs()
        if i.name.startswith("state_")
    }
    wanted = {i.name for i in wrapped.get_inputs()} - state.keys()
    outputs = [o.name for o in wrapped.get_outputs()]
    assert sorted(outputs) == sorted(["outputs", *(f"next_{n}" for n in state)])

    host, runs = Host(files), [run_of(path) for path in paths]
    # One interpolation is in float32 here and was in float64 there; all else is copied.
    rtol = 1e-6 if "lat_planner_state" in host.inputs else 0
    rng = np.random.default_rng(5)
    for frame in range(FRAMES):
        given = drawn(rng)
        feeds = {name: array for name, array in given.items() if name in wanted} | state
        found = dict(zip(outputs, wrapped.run(outputs, feeds), strict=True))
        expected = host_turn(host, files, runs, given)
        np.testing.assert_allclose(found["outputs"], expected, rtol, err_msg=f"frame {frame}")
        state = {name: found[f"next_{name}"] for name in state}
    # The comparison means something: every state has moved.
    assert all(np.ptp(array) > 0 for array in state.values())
    return imported.generation


@pytest.mark.parametrize("name", INTERFACES)
def test_equals_the_host(name: str, tmp_path: Path) -> None:
    generation, files = INTERFACES[name]
    assert check_against_host(files, tmp_path) == generation


def shipped_file(entry: dict) -> File:
    """A file as listed in the metadata of shipped networks; unnamed ranges become heads too."""
    size = entry["output_shapes"]["outputs"][1]
    heads: dict[str, int] = {}
    end = 0
    ranges = {name: slice(*ends).indices(size) for name, ends in entry["output_slices"].items()}
    for name, (start, stop, _) in sorted(ranges.items(), key=lambda item: item[1]):
        if start > end:
            heads[f"unnamed_{end}"] = start - end
        heads[name], end = stop - start, stop
    if size > end:
        heads[f"unnamed_{end}"] = size - end
    return File({name: tuple(shape) for name, shape in entry["input_shapes"].items()}, heads)


def networks(files: dict[str, File]) -> dict[str, list[list[File]]]:
    """For every file by name the sets of files that it could be run in."""
    seeing = [f for f in files.values() if "features_buffer" not in f.inputs]
    seeing = [f for f in seeing if any(name.startswith("big_") for name in f.inputs)]
    policies = [f for f in files.values() if f.inputs.keys().isdisjoint(("img", "input_imgs"))]
    policies = [f for f in policies if "features_buffer" in f.inputs]
    found: dict[str, list[list[File]]] = {}
    for name, file in files.items():
        if file in seeing:
            found[name] = [[file, policy] for policy in policies]
        elif file in policies:
            pairs = [[vision, file] for vision in seeing]
            others = [
                p for p in policies if p.inputs["features_buffer"] == file.inputs["features_buffer"]
            ]
            found[name] = pairs + [[*pair, other] for pair in pairs for other in others]
        else:
            found[name] = [[file]]
    return found


def test_shipped_interfaces(data_path: Callable[[str], Path], tmp_path: Path) -> None:
    """Each file of the list is in a network that equals its host."""
    listed = json.loads(data_path("models/openpilot/metadata.json").read_text())
    files = {name: shipped_file(entry) for name, entry in listed.items()}
    wrapped: dict[str, str] = {}
    refused: dict[str, str] = {}
    checked: dict[str, str] = {}
    for name, candidates in networks(files).items():
        for candidate in candidates:
            try:
                paths = write_all(candidate, tmp_path)
                imported = import_model(paths[0], {}, paths[1:])
            except ModeldError as error:
                refused.setdefault(name, str(error))
                continue
            key = repr(candidate)
            if imported.generation != TODAY and key not in checked:
                checked[key] = check_against_host(candidate, tmp_path)
            wrapped[name] = checked.get(key, TODAY)
            break
    assert wrapped.keys() == files.keys(), refused
    # Those that are no part of another and see the road are driving networks of a generation.
    complete = {n for n, f in files.items() if {"plan", "lane_lines", "meta"} <= f.heads.keys()}
    assert {name for name in complete if wrapped[name] != TODAY} == complete
