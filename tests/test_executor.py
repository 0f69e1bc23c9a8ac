import dataclasses
import weakref
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest
from toy_artifact import SIZE, WEIGHT, toy_files, toy_manifest, write_toy
from toy_driver import write_driver

from modeld import Executor, open_artifact
from modeld.cameras.frame import Frame, FrameLayout
from modeld.device_memory import DeviceMemory
from modeld.errors import ArtifactRefusedError, ModeldError
from modeld.manifest import Binding, Buffer, FrozenInput, Tensor
from modeld.opencl import select_device
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


# Small and large inputs of one buffer, in bytes of it: a, LARGE, b, c, OTHER.
LARGE, OTHER = Tensor("large", (40, 60), "float32"), Tensor("other", (5000,), "uint8")
SMALL = tuple(Tensor(name, (SIZE,), "float32") for name in "abc")
PLACES = {"a": 0, "large": 512, "b": 10240, "c": 10752, "other": 12288}
INPUTS = Tensor("inputs", (18432,), "uint8")


@pytest.fixture
def memory(toy: Path) -> DeviceMemory:
    manifest = toy_manifest(toy_files())
    inputs = Buffer("inputs", INPUTS.shape[0], "input")
    tensors = [*SMALL, LARGE, OTHER]
    bindings = [
        Binding(t.name, "inputs", PLACES[t.name], np.zeros(t.shape, t.dtype).nbytes)
        for t in tensors
    ]
    changed = dataclasses.replace(
        manifest,
        buffers=(inputs, *(b for b in manifest.buffers if b.name != "inputs")),
        bindings=(*bindings, *(b for b in manifest.bindings if b.buffer != "inputs")),
    )
    queue = cl.CommandQueue(cl.Context([select_device()]))
    return DeviceMemory(queue, dataclasses.replace(open_artifact(toy), manifest=changed))


def values(tensor: Tensor, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 200, tensor.shape).astype(tensor.dtype)


def on_device(memory: DeviceMemory, tensor: Tensor) -> np.ndarray:
    whole = memory.read("inputs", INPUTS)[PLACES[tensor.name] :]
    bytes_ = np.zeros(tensor.shape, tensor.dtype).nbytes
    return whole[:bytes_].view(tensor.dtype).reshape(tensor.shape)


def send(memory: DeviceMemory, arrays: dict[str, np.ndarray]) -> int:
    """Upload the arrays; the number of transfers."""
    memory.stage([t for t in (*SMALL, LARGE, OTHER) if t.name in arrays], arrays)
    transfers = memory.upload()
    memory.download()
    return len(transfers)


def test_neighbours_share_a_transfer_and_nobody_overwrites_another(memory: DeviceMemory) -> None:
    sent = {t.name: values(t, n) for n, t in enumerate((*SMALL, LARGE, OTHER))}
    assert send(memory, sent) == 4
    changed = {**sent, "b": values(SMALL[1], 9)}
    # The large ones are always sent; `a` is as it was, `b` and `c` lie side by side.
    assert send(memory, changed) == 3
    for tensor in (*SMALL, LARGE, OTHER):
        np.testing.assert_array_equal(on_device(memory, tensor), changed[tensor.name])


def test_a_large_input_goes_up_from_where_it_is(memory: DeviceMemory) -> None:
    array = values(LARGE, 1)
    array.flags.writeable = False
    assert send(memory, {"large": array}) == 1
    np.testing.assert_array_equal(on_device(memory, LARGE), array)
    changing = values(LARGE, 2)
    memory.stage([LARGE], {"large": changing})
    changing += 1  # would not be seen of a copy
    memory.upload()
    memory.download()
    np.testing.assert_array_equal(on_device(memory, LARGE), changing)


@pytest.mark.parametrize("order", ["transposed", "strided", "reversed"])
def test_a_large_input_that_is_not_contiguous_is_right(memory: DeviceMemory, order: str) -> None:
    array = values(LARGE, 3)
    other = {
        "transposed": np.asfortranarray(array),
        "strided": np.repeat(array, 2, axis=1)[:, ::2],
        "reversed": array[::-1].copy()[::-1],
    }[order]
    assert not other.flags.c_contiguous
    assert send(memory, {"large": other}) == 1
    np.testing.assert_array_equal(on_device(memory, LARGE), array)


def test_a_large_input_outlives_its_caller(memory: DeviceMemory) -> None:
    kept = values(LARGE, 4)
    memory.stage([LARGE], {"large": kept.copy()})
    memory.upload()
    # Whoever asks for memory now must not get the array's.
    noise = [np.full(LARGE.shape, -1, np.float32) for _ in range(100)]
    memory.download()
    assert len(noise) == 100
    np.testing.assert_array_equal(on_device(memory, LARGE), kept)


def test_a_transfer_done_does_not_keep_the_callers_array(memory: DeviceMemory) -> None:
    array = values(LARGE, 5)
    alive = weakref.ref(array)
    send(memory, {"large": array})
    del array
    assert alive() is None


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
