"""C functions that paint one pixel, for kernels in OpenCL C and CUDA C."""

from modeld.replay.road.camera import CAMERA_PARAMETERS, chroma, luma, pixel_rgb
from modeld.replay.road.scene import PARAMETERS
from modeld.replay.road.shading import FULL, Detail
from modeld.replay.road.trace import Statements, Traced, TracedMaths

# What the two languages spell differently. GLOBAL_ID(0) is the pixel, or the first of as many as
# there are lanes, GLOBAL_ID(1) the picture.
DIALECTS = {
    "OpenCL": (
        "#define KERNEL __kernel\n#define GLOBAL __global\n"
        "#define INLINE static inline __attribute__((always_inline))\n#define FUNCTION INLINE\n"
        "#define GLOBAL_ID(axis) ((int)get_global_id(axis))\n"
        "INLINE int any8(const int8 m) { const int4 h = m.lo | m.hi; const int2 q = h.lo | h.hi; "
        "return (q.x | q.y) < 0; }\n#define ANY(mask) any8((mask).lo | (mask).hi)\n"
        # The edges of pixels are where two implementations could differ visibly.
        "#pragma OPENCL FP_CONTRACT OFF\n"
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
