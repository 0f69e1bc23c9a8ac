"""C functions that paint one pixel, for kernels in OpenCL C and CUDA C."""

from modeld.replay.road.camera import CAMERA_PARAMETERS, chroma, luma, pixel_rgb
from modeld.replay.road.scene import PARAMETERS
from modeld.replay.road.shading import FULL, Detail
from modeld.replay.road.trace import Statements, Traced, TracedMaths

# Sixteen values at once. Rounding is by adding a number so large that no fraction fits beside it
# (right below 2^22); the polynomials for exp and log are minimax fits of our own, good to 3e-7.
_VECTORS = """
INLINE int any8(const int8 m) {
  const int4 h = m.lo | m.hi;
  const int2 q = h.lo | h.hi;
  return (q.x | q.y) < 0;
}
#define ANY(mask) any8((mask).lo | (mask).hi)
INLINE float16 vector_rint(const float16 x) { return (x + 12582912.0f) - 12582912.0f; }
INLINE float16 vector_floor(const float16 x) {
  const float16 whole = convert_float16(convert_int16(x));
  return whole - (whole > x ? (float16)(1.0f) : (float16)(0.0f));
}
INLINE float16 vector_exp(const float16 x) {
  const float16 low = x < -87.0f ? (float16)(-87.0f) : x;
  const float16 in = low > 88.0f ? (float16)(88.0f) : low;
  const float16 n = vector_rint(in * 1.44269504f);
  const float16 r = fma(n, (float16)(-1.42860677e-6f), fma(n, (float16)(-0.693145752f), in));
  float16 y = (float16)(0.00836915645f);
  y = fma(y, r, (float16)(0.0418756988f));
  y = fma(y, r, (float16)(0.166665052f));
  y = fma(y, r, (float16)(0.499993717f));
  y = fma(y, r, (float16)(1.00000001f));
  y = fma(y, r, (float16)(1.0f));
  return y * as_float16((convert_int16(n) + 127) << 23);
}
INLINE float16 vector_log(const float16 x) {
  // x = 2^e (1 + f), f from sqrt(1/2) - 1 to sqrt(2) - 1.
  const int16 e = (as_int16(x) - 0x3F3504F3) >> 23;
  const float16 f = as_float16(as_int16(x) - (e << 23)) - 1.0f;
  float16 y = (float16)(-0.101340693f);
  y = fma(y, f, (float16)(0.162342079f));
  y = fma(y, f, (float16)(-0.172470166f));
  y = fma(y, f, (float16)(0.198985631f));
  y = fma(y, f, (float16)(-0.249700713f));
  y = fma(y, f, (float16)(0.333351142f));
  y = fma(y, f, (float16)(-0.500003631f));
  y = fma(y, f, (float16)(0.999999943f));
  return fma(convert_float16(e), (float16)(0.693147181f), y * f);
}
"""
# What the two languages spell differently. GLOBAL_ID(0) is the pixel, or the first of as many as
# there are lanes, GLOBAL_ID(1) the picture.
DIALECTS = {
    "OpenCL": (
        "#define KERNEL __kernel\n#define GLOBAL __global\n"
        "#define INLINE static inline __attribute__((always_inline))\n#define FUNCTION INLINE\n"
        "#define GLOBAL_ID(axis) ((int)get_global_id(axis))\n"
        # The edges of pixels are where two implementations could differ visibly.
        "#pragma OPENCL FP_CONTRACT ON\n" + _VECTORS
    ),
    "CUDA": (
        '#define KERNEL extern "C" __global__\n#define GLOBAL\n#define FUNCTION __device__\n'
        "#define GLOBAL_ID(axis) ((axis) ? (int)(blockIdx.y * blockDim.y + threadIdx.y) : "
        "(int)(blockIdx.x * blockDim.x + threadIdx.x))\n"
        "typedef unsigned int uint;\ntypedef unsigned char uchar;\n"
    ),
}


def yuv_function(detail: Detail = FULL, lanes: int = 1) -> str:
    """`float3_`-like C function `yuv(p, c, u, v, out)`.

    `p` points to the scene's parameters, `c` to the camera's, (u, v) is the camera pixel; the
    three floats of `out` are Y, U and V, rounded to whole numbers. With more than one of `lanes`
    u, v and `out` are vectors of neighbouring pixels.
    """
    statements = Statements(lanes)
    scene = {name: statements.add("float", f"p[{i}]", False) for i, name in enumerate(PARAMETERS)}
    lens = {
        name: statements.add("float", f"c[{i}]", False) for i, name in enumerate(CAMERA_PARAMETERS)
    }
    maths = TracedMaths(statements)
    u, v = (Traced(statements, "float", name, True) for name in "uv")
    rgb = pixel_rgb(maths, scene, lens, u, v, detail)
    results = (luma(maths, rgb), *chroma(maths, rgb))
    stores = "\n".join(f"  out[{i}] = {value.name};" for i, value in enumerate(results))
    kind = statements.type("float", True)
    return (
        f"FUNCTION void yuv(GLOBAL const float *p, GLOBAL const float *c, const {kind} u, "
        f"const {kind} v, {kind} *out) {{\n{statements.text}\n{stores}\n}}\n"
    )
