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
MODEL_WIDTH, MODEL_HEIGHT = 256, 128
# Neighbouring pixels that one work-item makes, by device class: as wide as a CPU's registers are,
# or few enough to keep a GPU busy with 2 × 128 × 256 pixels.
LANES = {"cpu": 16, "gpu": 4}

_SOURCE = """\
// Camera frame {width} x {height}, NV12 -> two frames of six 256 x 128 planes.
// Multiply-adds are kept apart so that every device rounds like the float32 formula.
#pragma OPENCL FP_CONTRACT OFF

// Nearest whole number in [0, last]. NaN, from a division by zero, compares false and becomes 0.
inline int{n} nearest(float{n} s, float last) {{
  s = select((float{n})(0.0f), s, s > 0.0f);
  return convert_int{n}_rte(select((float{n})(last), s, s < last));
}}

// Byte offsets, in a plane of w x h pixels `step` bytes apart, of what {n} model pixels look at.
inline void locate(int stride, int step, __global const float* m,
                   float{n} x, float y, float shrink, int w, int h, int* where) {{
  float up = shrink, down = 1.0f / shrink;
  float{n} sx = (m[0] * x + m[1] * y) + m[2] * down;
  float{n} sy = (m[3] * x + m[4] * y) + m[5] * down;
  float{n} sz = (m[6] * up * x + m[7] * up * y) + m[8];
  int{n} column = nearest(sx / sz, w - 1), row = nearest(sy / sz, h - 1);
  vstore{n}(row * stride + column * step, 0, where);
}}

__kernel void {kernel}(__global const uchar* narrow, __global const uchar* wide,
                       __global const float* transforms, __global const int* layout,
                       __global uchar* image) {{
  int first = get_global_id(0) * {n}, y = get_global_id(1), frame = get_global_id(2);
  __global const uchar* luma = frame ? wide : narrow;
  __global const float* m = transforms + frame * 9;
  int stride = layout[frame * 2];
  __global const uchar* chroma = luma + layout[frame * 2 + 1];
  __global uchar* out = image + frame * 6 * 32768 + y * 256 + first;
  float{n} lane = (float{n})({lanes});
  int where[{n}];
  for (int phase = 0; phase < 4; phase++) {{
    float{n} x = (lane + first) * 2.0f + (phase >> 1);
    locate(stride, 1, m, x, 2 * y + (phase & 1), 1.0f, {width}, {height}, where);
    for (int i = 0; i < {n}; i++) out[phase * 32768 + i] = luma[where[i]];
  }}
  locate(stride, 2, m, lane + first, y, 2.0f, {width} / 2, {height} / 2, where);
  for (int i = 0; i < {n}; i++) {{
    out[4 * 32768 + i] = chroma[where[i]];
    out[5 * 32768 + i] = chroma[where[i] + 1];
  }}
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


def warp_program(camera: Camera, bindings: Sequence[Binding], device_class: str) -> WarpProgram:
    """The warp for `camera`; `bindings` say where its small inputs and its output lie."""
    lanes = LANES[device_class]
    # Room for the padded layout of the camera's own buffers; packed frames are shorter.
    size = venus_used_bytes(camera.width, camera.height)
    frames = [f"{name}_{camera.name}" for name in FRAME_NAMES]
    places = {binding.tensor: binding for binding in bindings}
    small = [places[name] for name in (TRANSFORMS.name, FRAME_LAYOUT.name, IMAGE_INPUT)]
    accesses = ("read", "read", "write")
    return WarpProgram(
        camera=camera,
        source=_SOURCE.format(
            width=camera.width,
            height=camera.height,
            kernel=KERNEL,
            n=lanes,
            lanes=", ".join(str(lane) for lane in range(lanes)),
        ),
        kernel=KERNEL,
        global_size=(MODEL_WIDTH // lanes, MODEL_HEIGHT, len(FRAME_NAMES)),
        local_size=(MODEL_WIDTH // lanes, 1, 1),
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
