"""The `run_warp` kernel: two NV12 frames → the network's image input, by nearest neighbour.

For each pixel of the 512×256 model frame, s = M·(x, y, 1) gives the camera pixel (s0/s2, s1/s2),
rounded half to even and clamped to the frame; chroma is sampled the same way at half size. The
six channels are the four phases of luma, in column-pair order, then U and V (facts of openpilot's
warp since late 2025).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from compile.memory import IMAGE_INPUT
from modeld.cameras.nv12 import venus_used_bytes
from modeld.manifest import Argument, Binding, Buffer, Camera, Tensor

TRANSFORMS = Tensor("transforms", (2, 3, 3), "float32", "model pixel to camera pixel, per frame")
FRAME_LAYOUT = Tensor("frame_layout", (2, 2), "int32", "stride and chroma offset, per frame")
WARP_INPUTS = (TRANSFORMS, FRAME_LAYOUT)

FRAME_NAMES = ("frame_narrow", "frame_wide")

KERNEL = "warp_nv12"
# One work-item makes one pixel of all six channels; a work-group is part of one row.
MODEL_WIDTH, MODEL_HEIGHT = 256, 128
_LOCAL_SIZE = (64, 1, 1)

_SOURCE = """\
// Camera frame {width} x {height}, NV12 -> two frames of six 256 x 128 planes.
// Multiply-adds are kept apart so that every device rounds like the float32 formula.
#pragma OPENCL FP_CONTRACT OFF

// Where model pixel (x, y) falls in a plane of {width} x {height} >> half pixels.
// A division by zero gives NaN, which fmax turns into pixel 0.
inline int2 camera_pixel(__global const float* m, float2 p, float half_size, int w, int h) {{
  float up = half_size, down = 1.0f / half_size;
  float sx = m[0] * p.x + m[1] * p.y + m[2] * down;
  float sy = m[3] * p.x + m[4] * p.y + m[5] * down;
  float sz = m[6] * up * p.x + m[7] * up * p.y + m[8];
  float2 s = rint((float2)(sx / sz, sy / sz));
  s = fmin(fmax(s, (float2)(0.0f)), (float2)(w - 1, h - 1));
  return convert_int2(s);
}}

__kernel void {kernel}(__global const uchar* narrow, __global const uchar* wide,
                       __global const float* transforms, __global const int* layout,
                       __global uchar* image) {{
  int x = get_global_id(0), y = get_global_id(1), frame = get_global_id(2);
  __global const uchar* pixels = frame ? wide : narrow;
  __global const float* m = transforms + frame * 9;
  int stride = layout[frame * 2], uv_offset = layout[frame * 2 + 1];
  __global uchar* out = image + frame * 6 * 32768 + y * 256 + x;
  for (int phase = 0; phase < 4; phase++) {{
    float2 p = (float2)(2 * x + (phase >> 1), 2 * y + (phase & 1));
    int2 s = camera_pixel(m, p, 1.0f, {width}, {height});
    out[phase * 32768] = pixels[s.y * stride + s.x];
  }}
  int2 s = camera_pixel(m, (float2)(x, y), 2.0f, {width} / 2, {height} / 2);
  __global const uchar* uv = pixels + uv_offset + s.y * stride + 2 * s.x;
  out[4 * 32768] = uv[0];
  out[5 * 32768] = uv[1];
}}
"""


@dataclass(frozen=True)
class WarpProgram:
    """The warp for one camera: its source, its one launch, and the frame buffers it reads."""

    camera: Camera
    source: str
    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    arguments: tuple[Argument, ...]
    buffers: tuple[Buffer, ...]
    bindings: tuple[Binding, ...]


def warp_program(camera: Camera, bindings: Sequence[Binding]) -> WarpProgram:
    """The warp for `camera`; `bindings` say where its small inputs and its output lie."""
    # Room for the padded layout of the camera's own buffers; packed frames are shorter.
    size = venus_used_bytes(camera.width, camera.height)
    frames = [f"{name}_{camera.name}" for name in FRAME_NAMES]
    places = {binding.tensor: binding for binding in bindings}
    small = [places[name] for name in (TRANSFORMS.name, FRAME_LAYOUT.name, IMAGE_INPUT)]
    accesses = ("read", "read", "write")
    return WarpProgram(
        camera=camera,
        source=_SOURCE.format(width=camera.width, height=camera.height, kernel=KERNEL),
        kernel=KERNEL,
        global_size=(MODEL_WIDTH, MODEL_HEIGHT, len(FRAME_NAMES)),
        local_size=_LOCAL_SIZE,
        arguments=(
            *(Argument(frame, 0, size, "read") for frame in frames),
            *(
                Argument(b.buffer, b.offset, b.bytes, access)
                for b, access in zip(small, accesses, strict=True)
            ),
        ),
        buffers=tuple(Buffer(frame, size, "frame") for frame in frames),
        bindings=tuple(Binding(frame, frame, 0, size) for frame in frames),
    )
