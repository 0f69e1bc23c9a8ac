"""C functions that paint one pixel, for kernels in OpenCL C and CUDA C."""

from modeld.replay.road.camera import CAMERA_PARAMETERS, chroma, luma, pixel_rgb
from modeld.replay.road.scene import PARAMETERS
from modeld.replay.road.shading import FULL, Detail
from modeld.replay.road.trace import Statements, Traced, TracedMaths

# What the two languages spell differently. GLOBAL_ID(0) is the pixel, GLOBAL_ID(1) the picture.
DIALECTS = {
    "OpenCL": (
        "#define KERNEL __kernel\n#define GLOBAL __global\n#define FUNCTION\n"
        "#define GLOBAL_ID(axis) ((int)get_global_id(axis))\n"
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


def yuv_function(detail: Detail = FULL) -> str:
    """`float3_`-like C function `yuv(p, c, u, v, out)`.

    `p` points to the scene's parameters, `c` to the camera's, (u, v) is the camera pixel; the
    three floats of `out` are Y, U and V, rounded to whole numbers.
    """
    statements = Statements()
    scene = {name: statements.add("float", f"p[{i}]") for i, name in enumerate(PARAMETERS)}
    lens = {name: statements.add("float", f"c[{i}]") for i, name in enumerate(CAMERA_PARAMETERS)}
    maths = TracedMaths(statements)
    u, v = (Traced(statements, "float", name) for name in "uv")
    rgb = pixel_rgb(maths, scene, lens, u, v, detail)
    results = (luma(maths, rgb), *chroma(maths, rgb))
    stores = "\n".join(f"  out[{i}] = {value.name};" for i, value in enumerate(results))
    return (
        "FUNCTION void yuv(GLOBAL const float *p, GLOBAL const float *c, const float u, "
        f"const float v, float *out) {{\n{statements.text}\n{stores}\n}}\n"
    )
