"""The build side: ONNX in, artifact out. Never imported by the device side.

tinygrad reads its device choice when it is first imported, so that is made here.
"""

import os as _os
from pathlib import Path as _Path

# Loads OpenCL, which must happen before tinygrad does.
import modeld.opencl as _opencl

# tinygrad by itself would look for GPUs of other kinds, then for a CPU device that wants a C
# compiler.
_os.environ["DEV"] = "CL"

# Both must speak through one OpenCL loader, since device handles pass between them: the one inside
# the pyopencl wheel where it has one (then no system library is needed), else the system's.
for _library in sorted((_Path(_opencl.cl.__file__).parent / ".libs").glob("libOpenCL*.so*")):
    _os.environ.setdefault("OPENCL_PATH", str(_library))
