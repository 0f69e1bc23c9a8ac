"""`run_warp` against a numpy statement of the nearest-neighbour warp, on real camera geometries."""

import numpy as np
import numpy.typing as npt
import pyopencl as cl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx_models import driving_model

from compile.build import build
from compile.request import BuildRequest
from compile.warp import LANES, warp_program
from modeld import Executor, open_artifact
from modeld.calibration import MEDMODEL, SBIGMODEL, Intrinsics, warp_matrix
from modeld.cameras.frame import FrameLayout
from modeld.cameras.nv12 import packed_layout, venus_layout
from modeld.errors import ModeldError
from modeld.executor import Executor as ExecutorType
from modeld.manifest import Binding, Camera
from modeld.opencl import select_device

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

CAMERAS = (Camera(1928, 1208), Camera(1344, 760))


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> ExecutorType:
    folder = tmp_path_factory.mktemp("warp")
    build(BuildRequest(driving_model(folder / "driving.onnx"), folder / "artifact"))
    artifact = open_artifact(folder / "artifact")
    assert artifact.manifest.contract.cameras == CAMERAS  # the default
    return Executor(artifact, select_device())


def sample(plane: U8, matrix: F32, width: int, height: int) -> U8:
    """Nearest neighbour with clamped coordinates, in float32 as the kernel computes it."""
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    with np.errstate(all="ignore"):
        s = [(row[0] * x + row[1] * y) + row[2] for row in matrix]
        columns, rows = np.rint(s[0] / s[2]), np.rint(s[1] / s[2])
    columns = np.clip(np.nan_to_num(columns, nan=0.0), 0, plane.shape[1] - 1).astype(int)
    rows = np.clip(np.nan_to_num(rows, nan=0.0), 0, plane.shape[0] - 1).astype(int)
    return plane[rows, columns]


def warp_frame(data: U8, layout: FrameLayout, matrix: F32) -> U8:
    """One frame's six channels (6,128,256)."""
    half = (layout.height // 2, layout.width // 2)
    luma = np.lib.stride_tricks.as_strided(data, (layout.height, layout.width), (layout.stride, 1))
    chroma = np.lib.stride_tricks.as_strided(
        data[layout.uv_offset :], (*half, 2), (layout.stride, 2, 1)
    )
    scale = np.array([[1, 1, 0.5], [1, 1, 0.5], [2, 2, 1]], np.float32)
    y = sample(luma, matrix, 512, 256)
    u, v = (sample(chroma[..., c], matrix * scale, 256, 128) for c in (0, 1))
    return np.stack([y[::2, ::2], y[1::2, ::2], y[::2, 1::2], y[1::2, 1::2], u, v])


def picture(layout: FrameLayout, seed: int) -> U8:
    return np.random.default_rng(seed).integers(0, 256, layout.bytes, np.uint8)


def run(
    executor: ExecutorType, layouts: tuple[FrameLayout, FrameLayout], matrices: F32
) -> tuple[U8, U8]:
    """(found, expected) images for random frames."""
    frames = [picture(layout, seed) for seed, layout in enumerate(layouts)]
    found = executor.run(
        "run_warp",
        {
            "frame_narrow": frames[0],
            "frame_wide": frames[1],
            "transforms": matrices,
            "frame_layout": np.array([[a.stride, a.uv_offset] for a in layouts], np.int32),
        },
        camera=f"{layouts[0].width}x{layouts[0].height}",
    )["new_img"]
    expected = np.stack(
        [warp_frame(f, a, m) for f, a, m in zip(frames, layouts, matrices, strict=True)]
    )
    return found, expected


def camera_matrices(width: int, narrow: float, wide: float, rpy: tuple[float, ...]) -> F32:
    height = {1928: 1208, 1344: 760}[width]
    return np.stack(
        [
            warp_matrix(rpy, Intrinsics(width, height, narrow), MEDMODEL),
            warp_matrix(rpy, Intrinsics(width, height, wide), SBIGMODEL),
        ]
    ).astype(np.float32)


# (width, narrow focal, wide focal) → published matrices at rpy 0: diagonal, tx, ty per frame.
PUBLISHED = {
    (1928, 2648.0, 567.0): (
        (2.909890, 219.068132, 465.489231),
        (1.246154, 644.984615, 414.833846),
    ),
    (1344, 1141.5, 425.25): (
        (1.254396, 350.874725, 320.290769),
        (0.934615, 432.738462, 238.125385),
    ),
}


@pytest.mark.parametrize("camera", PUBLISHED, ids=lambda c: str(c[0]))
def test_published_matrices(executor: ExecutorType, camera: tuple[int, float, float]) -> None:
    expected = np.array(
        [[[d, 0, tx], [0, d, ty], [0, 0, 1]] for d, tx, ty in PUBLISHED[camera]], np.float32
    )
    matrices = camera_matrices(*camera, (0.0, 0.0, 0.0))
    np.testing.assert_allclose(matrices, expected, atol=1e-4)
    size = (camera[0], {1928: 1208, 1344: 760}[camera[0]])
    layouts = (venus_layout(*size), venus_layout(*size))
    found, wanted = run(executor, layouts, expected)
    np.testing.assert_array_equal(found, wanted, strict=True)


def test_known_pixel_of_a_ramp(executor: ExecutorType) -> None:
    # Luma is its column modulo 256: model pixel (256, 47) of the narrow frame, phase (0, 1), looks
    # at column 2.90989 * 256 + 219.068 = 964.0, the middle of the camera.
    layout = venus_layout(1928, 1208)
    frame = np.zeros(layout.bytes, np.uint8)
    luma = np.lib.stride_tricks.as_strided(frame, (1208, 1928), (layout.stride, 1))
    luma[:] = np.arange(1928) % 256
    matrices = camera_matrices(1928, 2648.0, 567.0, (0.0, 0.0, 0.0))
    found = executor.run(
        "run_warp",
        {
            "frame_narrow": frame,
            "frame_wide": frame,
            "transforms": matrices,
            "frame_layout": np.array([[layout.stride, layout.uv_offset]] * 2, np.int32),
        },
        camera="1928x1208",
    )["new_img"]
    assert found[0, 0, 23, 128] == 964 % 256
    assert found[0, 1, 23, 128] == 964 % 256  # row 47: same column
    assert found[0, 2, 23, 128] == round(964 + 2.90989) % 256  # column 257


def test_kernels_for_cpu_and_gpu_agree() -> None:
    camera, image_bytes = Camera(64, 48), 2 * 6 * 128 * 256
    layout = packed_layout(64, 48)
    bindings = [
        Binding("transforms", "inputs", 0, 72),
        Binding("frame_layout", "inputs", 512, 16),
        Binding("new_img", "new_img", 0, image_bytes),
    ]
    context = cl.Context([select_device()])
    queue = cl.CommandQueue(context)
    matrix = np.array([[0.125, 0.01, 3], [-0.02, 0.2, 1], [1e-4, 2e-4, 1]], np.float32)
    hosts = (
        picture(layout, 0),
        picture(layout, 1),
        np.stack([matrix, matrix]),
        np.array([[layout.stride, layout.uv_offset]] * 2, np.int32),
    )
    images = []
    for device_class in LANES:
        warp = warp_program(camera, bindings, device_class)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        arguments = [cl.Buffer(context, flags, hostbuf=host) for host in hosts]
        arguments.append(cl.Buffer(context, cl.mem_flags.WRITE_ONLY, image_bytes))
        kernel = cl.Kernel(cl.Program(context, warp.source).build(), warp.kernel)
        kernel(queue, warp.global_size, warp.local_size, *arguments)
        images.append(np.zeros((2, 6, 128, 256), np.uint8))
        cl.enqueue_copy(queue, images[-1], arguments[-1])
    np.testing.assert_array_equal(images[0], images[1])
    np.testing.assert_array_equal(images[0][1], warp_frame(hosts[1], layout, matrix))


@pytest.mark.parametrize("rpy", [(0.0, 0.02, -0.03), (0.01, -0.05, 0.04)])
def test_calibrated_cameras_and_packed_frames(
    executor: ExecutorType, rpy: tuple[float, ...]
) -> None:
    matrices = camera_matrices(1344, 1141.5, 425.25, rpy)
    layouts = (packed_layout(1344, 760), venus_layout(1344, 760))
    found, expected = run(executor, layouts, matrices)
    np.testing.assert_array_equal(found, expected, strict=True)


def test_zero_matrix_takes_pixel_zero(executor: ExecutorType) -> None:
    # Before the first calibration both matrices are zero; 0/0 must not read out of bounds.
    layout = packed_layout(1344, 760)
    found, expected = run(executor, (layout, layout), np.zeros((2, 3, 3), np.float32))
    np.testing.assert_array_equal(found, expected, strict=True)
    assert len(np.unique(found[0, :4])) == 1


@settings(max_examples=15, deadline=None)
@given(arrays(np.float32, (2, 3, 3), elements=st.floats(-1e4, 1e4, width=32)))
def test_any_matrix_stays_inside_the_frame(executor: ExecutorType, matrices: F32) -> None:
    # Values with no meaning: the coordinates are clamped, whatever they are.
    layout = packed_layout(1344, 760)
    found, expected = run(executor, (layout, layout), matrices)
    # Where divisor and dividend are tiny, one rounding step moves the pixel.
    assert np.mean(found != expected) < 1e-3


def test_unknown_camera_is_named(executor: ExecutorType) -> None:
    with pytest.raises(ModeldError, match=r"640x480.*1928x1208"):
        executor.run("run_warp", {}, camera="640x480")
