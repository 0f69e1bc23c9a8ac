"""The training world on tinygrad: drives painted straight into what the warp would give.

For every pixel that the network sees, the warp reads one camera pixel; here only those are
painted. The picture itself is stated once, in `modeld.replay.road`, and traced into a kernel.
"""

from functools import cache

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.device import Device
from tinygrad.uop.ops import KernelInfo, Ops, ProgramInfo, UOp

from compile.reference.topology import IMAGE_CHANNELS
from modeld.calibration import MEDMODEL, SBIGMODEL, Intrinsics, warp_matrix
from modeld.errors import ModeldError
from modeld.replay.road.camera import CAMERA_PARAMETERS
from modeld.replay.road.kernel import DIALECTS, yuv_function
from modeld.replay.road.render import camera_values
from modeld.replay.road.scene import PARAMETERS

WIDTH, HEIGHT = 256, 128
PLANE = WIDTH * HEIGHT
CAMERA_ROW = len(CAMERA_PARAMETERS) + 9
# tinygrad's device → the language of its kernels.
_LANGUAGES = {"CL": "OpenCL", "CUDA": "CUDA"}

# A work-item paints LANES neighbouring luma pixels, plane by plane, then as many pairs of chroma
# values. A chroma pixel is warped by the matrix of half the size, which is the same ray as that of
# luma pixel 2 (x, y).
_PAINT = """
KERNEL void paint(GLOBAL uchar *images, GLOBAL const float *scenes, GLOBAL const float *cameras) {
  const int index = GLOBAL_ID(0) * LANES, picture = GLOBAL_ID(1);
  GLOBAL const float *p = scenes + (picture / 2) * SCENE;
  GLOBAL const float *c = cameras + picture * CAMERA;
  GLOBAL const float *m = c + CAMERA - 9;
  const int plane = index / PLANE, row = index % PLANE / WIDTH, column = index % WIDTH;
  const int is_luma = plane < 4;
  const float step = is_luma ? 1.0f : 2.0f;
  const FLOATS x = (is_luma ? (float)(2 * column + plane / 2) : (float)(2 * column)) + ACROSS;
  const float y = is_luma ? (float)(2 * row + plane % 2) : (float)(2 * row);
  const FLOATS depth = m[6] * x + m[7] * y + m[8];
  const float right = c[3] / step - 1.0f, low = c[4] / step - 1.0f;
  FLOATS u = rint((m[0] * x + m[1] * y + m[2]) / depth / step);
  FLOATS v = rint((m[3] * x + m[4] * y + m[5]) / depth / step);
  u = fmin(fmax(u, 0.0f), right) * step;
  v = fmin(fmax(v, 0.0f), low) * step;
  FLOATS out[3];
  yuv(p, c, u, v, out);
  GLOBAL uchar *image = images + picture * 6 * PLANE + index;
  STORE(is_luma ? out[0] : out[1], image);
  if (!is_luma) STORE(out[2], image + PLANE);
}
"""
# How many pixels a work-item paints, per language, and what that makes of the types above.
_LANES = {"OpenCL": 16, "CUDA": 1}
_TYPES = {
    1: "#define FLOATS float\n#define ACROSS 0.0f\n"
    "#define STORE(value, to) *(to) = (uchar)(value)\n",
    16: "#define FLOATS float16\n#define ACROSS (float16)("
    + ", ".join(f"{2 * i}.0f" for i in range(16))
    + ")\n#define STORE(value, to) vstore16(convert_uchar16(value), 0, to)\n",
}


def camera_rows(
    narrow: Intrinsics, wide: Intrinsics, rpy: np.ndarray, wide_error: np.ndarray, blur: np.ndarray
) -> np.ndarray:
    """What `paint` needs of a device's two cameras, (2, CAMERA_ROW) float32.

    The device is mounted at `rpy` radians; the wide camera is off by `wide_error` more, which
    the warp does not know. `blur` (2,) is in camera pixels.
    """
    rows = []
    for index, (camera, model) in enumerate(((narrow, MEDMODEL), (wide, SBIGMODEL))):
        values = camera_values(camera, rpy + wide_error * index, float(blur[index]))
        matrix = warp_matrix(rpy, camera, model).ravel()
        rows.append(np.concatenate([[values[name] for name in CAMERA_PARAMETERS], matrix]))
    return np.stack(rows).astype(np.float32)


def paint_source(language: str) -> str:
    """The kernel `paint` in "OpenCL" or "CUDA"."""
    lanes = _LANES[language]
    sizes = {"WIDTH": WIDTH, "PLANE": PLANE, "SCENE": len(PARAMETERS), "CAMERA": CAMERA_ROW}
    defines = "".join(
        f"#define {name} {value}\n" for name, value in (sizes | {"LANES": lanes}).items()
    )
    return DIALECTS[language] + defines + _TYPES[lanes] + yuv_function(lanes=lanes) + _PAINT


def source_for(device: str) -> str:
    """The kernel `paint` for a tinygrad device; ModeldError when it has no language for it."""
    language = _LANGUAGES.get(device.split(":")[0])
    if language is None:
        raise ModeldError(
            f"the training world is painted on {', '.join(_LANGUAGES)}, not on {device}; "
            "set DEV to one of those"
        )
    return paint_source(language)


@cache
def _compiled(device: str) -> tuple[str, bytes]:
    source = source_for(device)
    return source, Device[device].compiler.compile_cached(source)


def paint(scenes: Tensor, cameras: Tensor) -> Tensor:
    """`new_img` of each frame, (F, 2, 6, 128, 256) uint8, not yet realized.

    scenes is (F, parameters) as `parameter_rows` gives it; cameras (F, 2, CAMERA_ROW).
    """
    frames = scenes.shape[0]
    device = str(scenes.device)
    source, binary = _compiled(device)
    language = _LANGUAGES[device.split(":")[0]]
    group = 128 if _LANES[language] == 1 else 1

    def program(*buffers: UOp) -> UOp:
        sink = UOp.sink(*[b.base for b in buffers], arg=KernelInfo(name="paint"))
        info = ProgramInfo(
            name="paint",
            global_size=(5 * PLANE // _LANES[language] // group, 2 * frames, 1),
            local_size=(group, 1, 1),
            globals=(0, 1, 2),
            outs=(0,),
            ins=(1, 2),
            target=Device[device].renderer.target,
        )
        lines = UOp(Ops.LINEAR, src=(*sink.src, sink))
        parts = (sink, lines, UOp(Ops.SOURCE, arg=source), UOp(Ops.BINARY, arg=binary))
        return UOp(Ops.PROGRAM, src=parts, arg=info)

    images = Tensor.empty(frames, 2, 6, HEIGHT, WIDTH, dtype=dtypes.uint8, device=device)
    painted: Tensor = images.custom_kernel(scenes.contiguous(), cameras.contiguous(), fxn=program)[
        0
    ]
    return painted


def drive_images(scenes: Tensor, cameras: Tensor, steps: int) -> Tensor:
    """What a batch's cameras give, (S, T + 1, 2, 6, 128, 256) uint8, for T = `steps`."""
    return paint(scenes, cameras).reshape(-1, steps + 1, 2, IMAGE_CHANNELS, HEIGHT, WIDTH)
