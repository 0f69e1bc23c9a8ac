"""Whoever makes a manifest can make its hash fit; what it says must still be sound."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import Place, mutated, replaced
from toy_artifact import write_toy
from toy_driver import write_driver

from modeld import Executor, open_artifact
from modeld.errors import ArtifactRefusedError, ModeldError
from modeld.manifest import Manifest
from modeld.program_cache import ProgramCache

Changes = list[tuple[Place, Any]]
CALL: Place = ("entry_points", 0, "calls", 0)
HUGE = 1 << 80


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sound")
    write_toy(folder / "toy")
    write_driver(folder / "driver")
    return {"toy": folder / "toy", "driver": folder / "driver"}


def twice(values: list[Any]) -> list[Any]:
    return [*values, values[0]]


def image(**changes: Any) -> dict[str, Any]:
    return {"channel": "float", "height": 1, "row_pitch": 32, "width": 2} | changes


TOY: list[tuple[Place, Any, str]] = [
    (("name",), "a\x1b[2J", "cannot be printed"),
    (("files",), twice, "is there twice"),
    (("files", 0, "bytes"), -1, "is -1, allowed is 0"),
    (("files", 0, "sha256"), "xyz", "sha256 of .* is 'xyz'"),
    (("target", "alignment"), 0, "target.alignment is 0"),
    (("target", "alignment"), 48, "no power of two"),
    (("target", "device_class"), "tpu", "neither cpu nor gpu"),
    (("reference", "seeds"), [], r"number of reference.seeds is 0"),
    (("reference", "seeds", 0), -1, "reference seed is -1"),
    (("reference", "turns"), 10**18, "reference.turns is 1000000000000000000"),
    (("reference", "turns"), HUGE, "reference.turns is beyond 64 bits"),
    (("reference", "tolerances"), [], "'y' and reference.tolerances do not go together"),
    (("reference", "tolerances"), twice, "tolerance of 'y' is there twice"),
    *(
        (("reference", "tolerances", 0, "absolute"), text, "no finite decimal")
        for text in ("nan", "inf", "-1", "", "1e9999", "0" * 50, "1_0x")
    ),
    (("contract", "kind"), "flying", "contract.kind is 'flying'"),
    (("contract", "inputs"), twice, "tensor 'x' is there twice"),
    (("contract", "inputs", 0, "dtype"), "object", "element type 'object'"),
    (("contract", "inputs", 0, "shape"), [-8], "a dimension of 'x' is -8"),
    (("contract", "inputs", 0, "shape"), [1] * 33, "number of dimensions of 'x' is 33"),
    (("contract", "inputs", 0, "shape"), [1 << 40, 1 << 40], "size of 'x' is beyond 64 bits"),
    (("contract", "inputs", 0, "shape"), [9], "has 36 bytes, its binding 32"),
    (("contract", "inputs", 0, "name"), "z", "tensor 'z' has no binding"),
    (("contract", "state"), [], "output 'next_memory' and reference.tolerances"),
    (("bindings", 0, "buffer"), "outputs", "'x' .* role output|binding of 'x' ends"),
    (("contract", "state"), twice, "state 'memory' is there twice"),
    (("contract", "state", 0, "input"), "y", "names no input or no output"),
    (("contract", "outputs", 1, "dtype"), "int32", "differ in type"),
    (("contract", "output_slices"), [{"name": "a", "start": 0, "stop": 1}], "named outputs"),
    (
        ("contract", "frozen"),
        [{"name": "s", "shape": [1], "dtype": "int64", "sha256": "?"}],
        "sha256 of frozen 's'",
    ),
    (("contract", "cameras"), [{"width": 4, "height": 4}], "no input new_img"),
    (("contract", "cameras"), [{"width": 3, "height": 4}], "NV12 frames are even"),
    (("contract", "cameras"), [{"width": 1 << 30, "height": 4}], "a side of a camera's frame"),
    (("buffers",), twice, "buffer 'weights' is there twice"),
    (("buffers", 0, "bytes"), 0, "bytes of buffer 'weights' is 0"),
    (("buffers", 0, "bytes"), 1 << 41, "bytes of buffer 'weights' is"),
    (("buffers", 0, "role"), "arena", "buffer 'weights' has the role 'arena'"),
    (("buffers", 1, "role"), "attic", "buffer 'inputs' has the role 'attic'"),
    (("buffers", 1, "role"), "output", "role output, not input"),
    (("buffers", 3, "bytes"), 64, "state 'memory' has 32 bytes, its buffer has 64"),
    (("weights", 0, "offset"), 2048, "weight 'weight' ends at byte 2080 of a buffer of 2048"),
    (("weights", 0, "offset"), -512, "offset of weight 'weight' is -512"),
    (("weights", 0, "offset"), 4, "is no multiple of 512"),
    (("weights", 0, "bytes"), HUGE, "bytes of weight 'weight' is beyond 64 bits"),
    (("weights",), twice, "weight 'weight' is there twice"),
    (("bindings",), twice, "binding of 'x' is there twice"),
    (("bindings", 0, "buffer"), "cellar", "'cellar', which is not there"),
    (("bindings", 0, "offset"), 1024, "binding of 'x' ends at byte 1056 of a buffer of 1024"),
    (("bindings", 3, "buffer"), "memory", "overlap"),
    (("entry_points",), [], "'run_model' and the contract do not go together"),
    (("entry_points",), twice, "entry point 'run_model' is there twice"),
    (("entry_points", 0, "name"), "run_off", "neither run_model nor a camera's"),
    (("entry_points", 0, "camera"), {"width": 4, "height": 4}, "neither run_model nor"),
    (("budget", "kernels"), 2, "budget.kernels is 2"),
    ((*CALL, "program"), "weights.safetensors", "which is not in the artifact"),
    ((*CALL, "kernel"), "turn; x", "no identifier"),
    ((*CALL, "macs"), -1, "macs of run_model launch 0 is -1"),
    ((*CALL, "global_size"), [], "number of dimensions of run_model launch 0 is 0"),
    ((*CALL, "global_size"), [1, 1, 1, 1], "number of dimensions of run_model launch 0 is 4"),
    ((*CALL, "global_size"), [0], "global size of run_model launch 0 is 0"),
    ((*CALL, "global_size"), [-8], "global size of run_model launch 0 is -8"),
    ((*CALL, "global_size"), [1 << 20, 1 << 20], "work-items of run_model launch 0"),
    ((*CALL, "local_size"), [3], "local size 3 of run_model launch 0 does not divide"),
    ((*CALL, "local_size"), [0], "local size of run_model launch 0 is 0"),
    ((*CALL, "local_size"), [8, 1], "different numbers of dimensions"),
    ((*CALL, "arguments", 0, "buffer"), "x", "argument 0 of run_model launch 0 is buffer 'x'"),
    ((*CALL, "arguments", 0, "bytes"), 64, "ends at byte 64 of a buffer of 32"),
    ((*CALL, "arguments", 0, "bytes"), 0, "bytes of argument 0 of run_model launch 0 is 0"),
    ((*CALL, "arguments", 3, "offset"), -512, "offset of argument 3"),
    ((*CALL, "arguments", 3, "offset"), 516, "begins at byte 516"),
    ((*CALL, "arguments", 0, "access"), "execute", "has the access 'execute'"),
    ((*CALL, "arguments", 2, "access"), "write", "writes to 'memory', which run_model must not"),
    ((*CALL, "arguments", 3, "access"), "write", "writes to 'inputs', which run_model must not"),
    ((*CALL, "arguments", 4, "access"), "read_write", "writes to 'weights'"),
    ((*CALL, "arguments", 4, "buffer"), "outputs", "argument 4 .* ends at"),
    ((*CALL, "arguments"), twice, "writes bytes of 'outputs' that another argument names"),
    ((*CALL, "arguments", 4, "image"), image(channel="int"), "neither float nor half"),
    ((*CALL, "arguments", 4, "image"), image(width=0), "a side of the image"),
    ((*CALL, "arguments", 4, "image"), image(row_pitch=16), "row pitch of argument 4"),
    ((*CALL, "arguments", 4, "image"), image(height=2), "bytes of the image of argument 4"),
]
DRIVER: list[tuple[Place, Any, str]] = [
    (("contract", "output_slices", 0, "stop"), 1 << 30, "stop of slice"),
    (("contract", "output_slices", 1, "start"), -1, "start of slice"),
    (("contract", "output_slices"), twice, "output slice .* is there twice"),
    (("contract", "cameras"), twice, "camera '64x32' is there twice"),
    (("contract", "cameras"), [], "do not go together"),
    (("contract", "cameras", 0, "width"), 66, "no buffer frame_narrow_66x32"),
    (("buffers", 6, "bytes"), 64, "frame_narrow_64x32.* ends at byte"),
    (("buffers", 6, "role"), "input", "role input, not frame"),
    (("buffers", 4, "name"), "other", "which is not there"),
    (("bindings", 3, "tensor"), "matrices", "tensor 'transforms' has no binding"),
    ((*CALL, "arguments", 1, "bytes"), 512, "is a part of the frame"),
    ((*CALL, "arguments", 1, "access"), "write", "writes to 'frame_narrow_64x32'"),
    ((*CALL, "arguments", 3, "access"), "write", "writes to 'inputs', which run_warp must not"),
    (
        ("entry_points", 1, "calls", 0, "arguments", 3),
        lambda a: a | {"buffer": "frame_wide_64x32", "bytes": 3072},
        "the frame 'frame_wide_64x32', of another camera or none",
    ),
]


def refusal(path: Path, content: bytes) -> str:
    good = (path / "manifest.json").read_bytes()
    try:
        (path / "manifest.json").write_bytes(content)
        with pytest.raises(ArtifactRefusedError) as caught:
            open_artifact(path)
    finally:
        (path / "manifest.json").write_bytes(good)
    assert caught.value.reason in ("malformed", "unsafe-file", "missing-file", "newer-format")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("which", "place", "value", "message"),
    [*(("toy", *case) for case in TOY), *(("driver", *case) for case in DRIVER)],
)
def test_unsound_manifests_are_refused_by_name(
    manifests: dict[str, Path],
    which: str,
    place: Place,
    value: Any | Callable[[Any], Any],
    message: str,
) -> None:
    good = (manifests[which] / "manifest.json").read_bytes()
    found = refusal(manifests[which], replaced(good, [(place, value)]))
    assert re.search(message, found), found


def assert_ranges_inside(manifest: Manifest) -> None:
    """What a launch relies on, said once more in the plainest way."""
    sizes = {buffer.name: buffer.bytes for buffer in manifest.buffers}
    assert sum(sizes.values()) <= 1 << 40
    for place in (*manifest.bindings, *(a for c in calls(manifest) for a in c.arguments)):
        assert 0 <= place.offset <= place.offset + place.bytes <= sizes[place.buffer]
        assert place.offset % manifest.target.alignment == 0
    for weight in manifest.weights:
        assert 0 <= weight.offset <= weight.offset + weight.bytes <= sizes["weights"]
    for call in calls(manifest):
        assert all(size > 0 for size in call.global_size)


def calls(manifest: Manifest) -> list[Any]:
    return [call for entry in manifest.entry_points for call in entry.calls]


@pytest.mark.parametrize("which", ["toy", "driver"])
@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 4))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_mutated_manifests_are_refused_or_load_within_bounds(
    manifests: dict[str, Path],
    tmp_path: Path,
    which: str,
    seed: int,
    count: int,
) -> None:
    path = manifests[which]
    good = (path / "manifest.json").read_bytes()
    try:
        (path / "manifest.json").write_bytes(mutated(good, random.Random(seed), count))
        artifact = open_artifact(path)
        assert_ranges_inside(artifact.manifest)
        # Everything is allocated, compiled and bound; a launch is the kernel's own affair.
        Executor(artifact, cache=ProgramCache(tmp_path / "programs"))
    except ModeldError as error:
        assert "\n" not in str(error)
    finally:
        (path / "manifest.json").write_bytes(good)
