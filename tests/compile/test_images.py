"""Images where a device can make them of buffers, and a clear word where it cannot."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_models import conv_model, save_model, tensor
from tinygrad import Tensor
from tinygrad.device import Device
from tinygrad.helpers import IMAGE
from two_builds import build_twice, require_same_files

from compile.build import build
from compile.device import use_device
from compile.images import EXTENSION, image_table, images, in_images
from compile.ops.registry import Op, make_table
from compile.request import BuildRequest
from compile.values import HalfPlan
from modeld.artifact import open_artifact
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.opencl import describe_device, list_devices

CAPABLE = [d for d in list_devices() if EXTENSION in describe_device(d).extensions]
OTHERS = [d for d in list_devices() if d not in CAPABLE]


@pytest.mark.skipif(not OTHERS, reason=f"every device here has {EXTENSION}")
def test_device_without_images_is_refused(tmp_path: Path) -> None:
    model = conv_model(tmp_path / "m.onnx")
    request = BuildRequest(
        model, tmp_path / "a", image=True, device=OTHERS[0].platform.name if OTHERS else None
    )
    with pytest.raises(ModeldError, match=rf"--image: .* has no {EXTENSION}; leave --image out"):
        build(request)
    assert not (tmp_path / "a").exists()


def two_convolutions(path: Path) -> Path:
    """x (1,8,16,64) → y (1,8,16,64): 3×3 convolution, ReLU, 1×1 convolution."""
    rng = np.random.default_rng(5)
    weights = {
        "first": rng.standard_normal((16, 8, 3, 3)).astype(np.float32),
        "second": rng.standard_normal((8, 16, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second"], ["y"]),
    ]
    shapes = [tensor("x", (1, 8, 16, 64))], [tensor("y", (1, 8, 16, 64))]
    return save_model(path, nodes, *shapes, weights)


needs_images = pytest.mark.skipif(not CAPABLE, reason=f"no device here has {EXTENSION}")


@needs_images
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_images_hold_weights_and_values(tmp_path: Path, dtype: str) -> None:
    """The gates of the build compare with ONNX Runtime and with our executor, bit for bit."""
    model = two_convolutions(tmp_path / "m.onnx")
    device = CAPABLE[0].platform.name
    build(BuildRequest(model, tmp_path / "a", image=True, dtype=dtype, device=device))
    manifest = open_artifact(tmp_path / "a").manifest
    images = [
        (a.buffer, a.image.channel)
        for entry in manifest.entry_points
        for call in entry.calls
        for a in call.arguments
        if a.image
    ]
    channel = {"float32": "float", "float16": "half"}[dtype]
    assert {("weights", channel), ("arena", channel)} <= set(images)
    assert manifest.budget.image_reads >= 2
    assert EXTENSION in manifest.target.extensions
    assert manifest.target.image_pitch_alignment > 0
    assert (
        Executor(open_artifact(tmp_path / "a"), CAPABLE[0])
        .run("run_model", {"x": np.zeros((1, 8, 16, 64), np.float32)})["y"]
        .any()
        == 0
    )


@needs_images
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_two_processes_build_the_same_bytes(tmp_path: Path, dtype: str) -> None:
    options = ["--image", "--dtype", dtype, "--device", CAPABLE[0].platform.name]
    first, second = build_twice(two_convolutions(tmp_path / "m.onnx"), tmp_path, options)
    require_same_files(first, second)
    assert open_artifact(first / "out").manifest.budget.image_reads >= 2


def used_memory() -> np.ndarray:
    """What memory holds that held ones before and that tinygrad gives out again."""
    allocator, found = Device["CL"].allocator, np.full(4096, 2, np.uint8)
    before = allocator.alloc(found.size)
    allocator._copyin(before, memoryview(np.ones_like(found)))
    allocator.free(before, found.size)
    again = allocator.alloc(found.size)
    allocator._copyout(memoryview(found), again)
    allocator.free(again, found.size)
    return found


def test_memory_begins_as_zeros_where_rows_are_padded() -> None:
    use_device((CAPABLE or OTHERS)[0])
    assert (used_memory() == 1).all()
    with images(wanted=True, half=None):
        assert (used_memory() == 0).all()
    assert (used_memory() == 1).all()


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("Conv", ((1, 4, 8, 8), (4, 4, 3, 3)), 1),
        ("Conv", ((1, 4, 8), (4, 4, 3)), 0),
        ("MatMul", ((2, 3, 4), (4, 5)), 1),
        ("MatMul", ((2, 3, 4), (2, 4, 5)), 1),
        ("MatMul", ((3, 4), (2, 4, 5)), 0),
        ("MatMul", ((4,), (4, 5)), 0),
        ("Gemm", ((3, 4), (4, 5)), 1),
        ("Softmax", ((3, 4), (4, 5)), 0),
    ],
)
def test_only_what_tinygrad_lays_out_is(
    name: str, shapes: tuple[tuple[int, ...], ...], expected: int
) -> None:
    table = image_table(make_table([Op(name, lambda *_: IMAGE.value)]))
    (op,) = table["", name]
    assert op.run(*(Tensor.empty(*shape) for shape in shapes)) == expected


def test_overflow_is_refused() -> None:
    with pytest.raises(ModeldError, match="a, b do not fit float16; build with --dtype float32"):
        in_images(HalfPlan(frozenset({"c"}), frozenset({"b", "a"})))
