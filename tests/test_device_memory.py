import dataclasses
import weakref
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest
from toy_artifact import SIZE, toy_files, toy_manifest, write_toy
from toy_driver import expected, write_driver

from modeld import Executor, open_artifact
from modeld.cameras.frame import Frame, FrameLayout
from modeld.device_memory import DeviceMemory
from modeld.errors import ModeldError
from modeld.fakes.executor import OUTPUT_SIZE
from modeld.manifest import Argument, Binding, Buffer, Manifest, Tensor
from modeld.opencl import select_device

# Small and large inputs of one buffer, in bytes of it: a, LARGE, b, c, OTHER.
LARGE, OTHER = Tensor("large", (40, 60), "float32"), Tensor("other", (5000,), "uint8")
SMALL = tuple(Tensor(name, (SIZE,), "float32") for name in "abc")
PLACES = {"a": 0, "large": 512, "b": 10240, "c": 10752, "other": 12288}
INPUTS = Tensor("inputs", (18432,), "uint8")


def launching(manifest: Manifest, read: Argument) -> Manifest:
    """The manifest with a launch that reads `read` of the inputs."""
    (entry,) = manifest.entry_points
    (call,) = entry.calls
    arguments = (*(a for a in call.arguments if a.buffer != "inputs"), read)
    changed = dataclasses.replace(entry, calls=(dataclasses.replace(call, arguments=arguments),))
    return dataclasses.replace(manifest, entry_points=(changed,))


def five_inputs() -> Manifest:
    manifest = toy_manifest(toy_files())
    inputs = Buffer("inputs", INPUTS.shape[0], "input")
    tensors = [*SMALL, LARGE, OTHER]
    bindings = [
        Binding(t.name, "inputs", PLACES[t.name], np.zeros(t.shape, t.dtype).nbytes)
        for t in tensors
    ]
    return dataclasses.replace(
        launching(manifest, Argument("inputs", PLACES["a"], SIZE * 4, "read")),
        buffers=(inputs, *(b for b in manifest.buffers if b.name != "inputs")),
        bindings=(*bindings, *(b for b in manifest.bindings if b.buffer != "inputs")),
    )


def memory_of(manifest: Manifest, folder: Path, borrow: bool) -> DeviceMemory:
    write_toy(folder / "toy")
    artifact = dataclasses.replace(open_artifact(folder / "toy"), manifest=manifest)
    queue = cl.CommandQueue(cl.Context([select_device()]))
    return DeviceMemory(queue, artifact, borrow=borrow)


@pytest.fixture
def memory(tmp_path: Path) -> DeviceMemory:
    return memory_of(five_inputs(), tmp_path, borrow=False)


@pytest.fixture
def borrowing(tmp_path: Path) -> DeviceMemory:
    return memory_of(five_inputs(), tmp_path, borrow=True)


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


def test_a_borrowed_input_is_read_where_it_is(borrowing: DeviceMemory) -> None:
    sent = {t.name: values(t, n) for n, t in enumerate((*SMALL, LARGE))}
    # The small ones lie on both sides of the large one, which does not go up.
    assert send(borrowing, sent) == 2
    borrowing.stage([LARGE], {"large": sent["large"]})
    buffer = borrowing.input_buffers()["large"]
    sent["large"] += 1  # would not be seen in a copy
    assert buffer.get_host_array(LARGE.shape, np.float32).ctypes.data == sent["large"].ctypes.data
    assert borrowing.upload() == []
    borrowing.download()


def test_an_input_is_borrowed_for_one_turn(borrowing: DeviceMemory) -> None:
    own = borrowing.input_buffers()
    assert own.keys() == {"large", "other"}
    array = values(LARGE, 5)
    alive = weakref.ref(array)
    send(borrowing, {"large": array})
    del array
    assert alive() is None
    assert borrowing.input_buffers() == own
    # What a refused call has borrowed before it was refused is not read by the next one.
    with pytest.raises(ModeldError, match="input other is"):
        wrong = {"large": values(LARGE, 6), "other": values(LARGE, 7)}
        borrowing.stage([LARGE, OTHER], wrong)
    assert send(borrowing, {"a": values(SMALL[0], 8)}) == 1
    assert borrowing.input_buffers() == own


def test_an_array_at_an_odd_address_is_copied(borrowing: DeviceMemory) -> None:
    odd = np.zeros(LARGE.shape[0] * LARGE.shape[1] + 1, np.float32)[1:].reshape(LARGE.shape)
    odd[...] = values(LARGE, 1)
    assert odd.ctypes.data % 16
    assert send(borrowing, {"large": odd}) == 1
    np.testing.assert_array_equal(on_device(borrowing, LARGE), odd)


def test_an_input_that_a_launch_reads_a_part_of_is_never_borrowed(tmp_path: Path) -> None:
    part = Argument("inputs", PLACES["large"] + 512, SIZE * 4, "read")
    memory = memory_of(launching(five_inputs(), part), tmp_path, borrow=True)
    assert memory.input_buffers().keys() == {"other"}
    assert send(memory, {"large": values(LARGE, 1)}) == 1


def test_pictures_of_a_caller_and_warped_ones_in_turn(tmp_path: Path) -> None:
    write_driver(tmp_path / "driver", 64, 32)
    executor = Executor(open_artifact(tmp_path / "driver"))
    others = {
        t.name: np.zeros(t.shape, t.dtype)
        for t in executor.contract.inputs
        if t.name not in ("new_img", "count")
    }
    random = np.random.default_rng(4)
    eyes = np.stack([np.eye(3, dtype=np.float32)] * 2)
    layout = FrameLayout(64, 32, 64, 2048)
    for _ in range(3):
        image = random.integers(0, 256, (2, 6, 128, 256), np.uint8)
        shifted = np.empty(image.size + 1, np.uint8)[1:].reshape(image.shape)
        shifted[...] = image
        for given in (image, shifted, np.asfortranarray(image)):
            outputs = executor.run("run_model", {"new_img": given, **others})["outputs"]
            np.testing.assert_array_equal(outputs, expected(image))
        frame = random.integers(0, 256, layout.bytes, np.uint8)
        result = executor.run_frame(
            Frame(frame, layout, 0, 1, 2), Frame(frame, layout, 0, 1, 2), eyes, others
        )
        # The toy's warp repeats the last byte of the brightness.
        seen = np.append(frame[:2048], np.full(OUTPUT_SIZE - 2048, frame[2047]))
        np.testing.assert_array_equal(result.outputs["outputs"], expected(seen))
