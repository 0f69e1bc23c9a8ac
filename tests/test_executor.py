import dataclasses
from pathlib import Path

import numpy as np
import pytest
from toy_artifact import SIZE, WEIGHT, toy_files, toy_manifest, write_toy
from toy_driver import write_driver

from modeld import Executor, open_artifact
from modeld.cameras.frame import Frame, FrameLayout
from modeld.errors import ArtifactRefusedError, ModeldError
from modeld.manifest import FrozenInput
from modeld.program_cache import ProgramCache
from modeld.selftest import check

X = np.arange(SIZE, dtype=np.float32)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    write_toy(tmp_path / "toy")
    return tmp_path / "toy"


def test_state_advances_and_swaps_over_many_turns(toy: Path) -> None:
    executor = Executor(open_artifact(toy))
    memory = np.zeros(SIZE, np.float32)
    for turn in range(200):
        x = X + turn
        outputs = executor.run("run_model", {"x": x})
        assert list(outputs) == ["y"]
        np.testing.assert_array_equal(outputs["y"], WEIGHT * x + memory)
        memory = memory + x
        np.testing.assert_array_equal(executor.state()["memory"], memory)


@pytest.mark.parametrize("turns", [1, 2])
def test_reset_zeroes_state_after_odd_and_even_turns(toy: Path, turns: int) -> None:
    executor = Executor(open_artifact(toy))
    first = executor.run("run_model", {"x": X})["y"]
    for _ in range(turns - 1):
        executor.run("run_model", {"x": X})
    executor.reset()
    np.testing.assert_array_equal(executor.state()["memory"], np.zeros(SIZE))
    np.testing.assert_array_equal(executor.run("run_model", {"x": X})["y"], first)


def test_initial_state_by_name(toy: Path) -> None:
    executor = Executor(open_artifact(toy), initial_state={"memory": X * 3})
    np.testing.assert_array_equal(executor.run("run_model", {"x": X})["y"], WEIGHT * X + X * 3)


def test_results_do_not_change_under_the_caller(toy: Path) -> None:
    executor = Executor(open_artifact(toy))
    first = executor.run("run_model", {"x": X})["y"]
    kept = first.copy()
    executor.run("run_model", {"x": X * 7})
    np.testing.assert_array_equal(first, kept)


def test_results_are_the_callers(toy: Path) -> None:
    executor = Executor(open_artifact(toy))
    first = executor.run("run_model", {"x": X})["y"]
    first[:] = np.nan
    executor.reset()
    np.testing.assert_array_equal(executor.run("run_model", {"x": X})["y"], WEIGHT * X)


def test_profile_times_each_launch(toy: Path) -> None:
    executor = Executor(open_artifact(toy), profile=True)
    executor.run("run_model", {"x": X})
    (time,) = executor.kernel_times()
    assert time.call.nodes == ("Add_0",)
    assert time.nanoseconds > 0


def test_second_start_takes_programs_from_the_cache(toy: Path, tmp_path: Path) -> None:
    for hits, misses in ((0, 1), (1, 0)):
        executor = Executor(open_artifact(toy), cache=ProgramCache(tmp_path / "cache"))
        outputs = executor.run("run_model", {"x": X})
        executor.keep_programs()
        assert (executor.cache.hits, executor.cache.misses) == (hits, misses)
        np.testing.assert_array_equal(outputs["y"], WEIGHT * X)


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_damaged_cache_entry_is_a_miss_and_rewritten(
    toy: Path, tmp_path: Path, damage: bytes | None
) -> None:
    cache = tmp_path / "cache"
    executor = Executor(open_artifact(toy), cache=ProgramCache(cache))
    executor.run("run_model", {"x": X})
    executor.keep_programs()
    (entry,) = cache.iterdir()
    good = entry.read_bytes()
    entry.write_bytes(good[: len(good) // 2] if damage is None else damage)
    executor = Executor(open_artifact(toy), cache=ProgramCache(cache))
    np.testing.assert_array_equal(executor.run("run_model", {"x": X})["y"], WEIGHT * X)
    executor.keep_programs()
    assert executor.cache.misses == 1
    assert Executor(open_artifact(toy), cache=ProgramCache(cache)).cache.hits == 1


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "inputs missing: x; unknown: none"),
        ({"x": X, "z": X}, "unknown: z"),
        ({"x": X.astype(np.float64)}, r"input x is float64\[8\], the model wants float32\[8\]"),
        ({"x": X[:4]}, r"input x is float32\[4\]"),
    ],
)
def test_wrong_inputs_are_named(toy: Path, inputs: dict[str, np.ndarray], message: str) -> None:
    executor = Executor(open_artifact(toy))
    with pytest.raises(ModeldError, match=message):
        executor.run("run_model", inputs)


def test_wrong_initial_state_entry_and_camera_are_named(toy: Path) -> None:
    with pytest.raises(ModeldError, match=r"initial state memry .* memory float32\[8\]"):
        Executor(open_artifact(toy), initial_state={"memry": X})
    executor = Executor(open_artifact(toy))
    with pytest.raises(ModeldError, match="no entry point 'run_modle'"):
        executor.run("run_modle", {})
    with pytest.raises(ModeldError, match="no run_warp for camera 640x480"):
        executor.run("run_warp", {}, camera="640x480")


def test_selftest_is_exact_and_leaves_zero_state(toy: Path) -> None:
    artifact = open_artifact(toy)
    executor = Executor(artifact)
    result = check(executor, artifact)
    assert result.exact
    assert result.worst == {"y": 0.0}
    np.testing.assert_array_equal(executor.state()["memory"], np.zeros(SIZE))


def test_selftest_names_the_wrong_value(toy: Path) -> None:
    # A device that computes something else: the same files, another kernel body.
    artifact = open_artifact(toy)
    executor = Executor(artifact, initial_state=None)
    executor.run = lambda entry, inputs: {"y": np.full(SIZE, np.nan, np.float32)}  # type: ignore
    with pytest.raises(ModeldError, match=r"self-test failed: y\[0\] is nan, the build had 0.0"):
        check(executor, artifact)


def test_frozen_input_is_accepted_only_with_its_value(tmp_path: Path) -> None:
    import hashlib

    value = np.arange(3)
    contract = toy_manifest(toy_files()).contract
    frozen = FrozenInput("sizes", (3,), "int64", hashlib.sha256(value.tobytes()).hexdigest())
    write_toy(tmp_path / "toy", contract=dataclasses.replace(contract, frozen=(frozen,)))
    executor = Executor(open_artifact(tmp_path / "toy"))
    executor.run("run_model", {"x": X})
    executor.run("run_model", {"x": X, "sizes": value})
    with pytest.raises(ModeldError, match="input sizes was frozen at build time"):
        executor.run("run_model", {"x": X, "sizes": value + 1})


def test_other_device_class_is_refused_and_other_driver_must_be_allowed(tmp_path: Path) -> None:
    target = toy_manifest(toy_files()).target
    write_toy(tmp_path / "gpu", target=dataclasses.replace(target, device_class="gpu"))
    with pytest.raises(ArtifactRefusedError, match="built for device class 'gpu', found 'cpu'"):
        Executor(open_artifact(tmp_path / "gpu"))
    write_toy(tmp_path / "old", target=dataclasses.replace(target, driver="0.0"))
    with pytest.raises(ArtifactRefusedError, match=r"built for driver '0.0'.*--allow other-driver"):
        Executor(open_artifact(tmp_path / "old"))
    Executor(open_artifact(tmp_path / "old"), allow=["other-driver"]).run("run_model", {"x": X})


@pytest.mark.parametrize(("stride", "uv_offset"), [(-64, 2048), (32, 2048), (64, 0), (64, -1)])
def test_layouts_that_would_lead_out_of_the_frame_are_refused(
    tmp_path: Path, stride: int, uv_offset: int
) -> None:
    write_driver(tmp_path / "driver", 64, 32)
    executor = Executor(open_artifact(tmp_path / "driver"))
    data = np.zeros(4096, np.uint8)
    eyes = np.stack([np.eye(3, dtype=np.float32)] * 2)
    layout = FrameLayout(64, 32, stride, uv_offset)
    message = f"frame_narrow has stride {stride} and chroma at {uv_offset}, too little for 64x32"
    with pytest.raises(ModeldError, match=message):
        executor.run_frame(
            Frame(data, layout, 0, 1, 2),
            Frame(data, layout, 0, 1, 2),
            eyes,
            {
                t.name: np.zeros(t.shape, t.dtype)
                for t in executor.contract.inputs
                if t.name not in ("new_img", "count")
            },
        )
    inputs = {
        "transforms": eyes,
        "frame_layout": np.array([[stride, uv_offset]] * 2, np.int32),
        "frame_narrow": data,
        "frame_wide": data,
    }
    with pytest.raises(ModeldError, match=message):
        executor.run("run_warp", inputs, camera="64x32")
