"""The build side: ONNX in, artifact out. Never imported by the device side.

tinygrad reads its device choice when it is first imported, so that is made here.
"""

import importlib.util as _util
import os as _os
from pathlib import Path as _Path

import modeld.environment  # noqa: F401

# tinygrad by itself would look for GPUs of other kinds, then for a CPU device that wants a C
# compiler. Training may ask for CUDA; artifacts are always made with OpenCL.
if _os.environ.get("DEV", "").split(":")[0] != "CUDA":
    _os.environ["DEV"] = "CL"

# Both must speak through one OpenCL loader, since device handles pass between them: the one inside
# the pyopencl wheel where it has one (then no system library is needed), else the system's.
_spec = _util.find_spec("pyopencl")
_folder = _Path(_spec.origin or "").parent if _spec else _Path()
for _library in sorted((_folder / ".libs").glob("libOpenCL*.so*")):
    _os.environ.setdefault("OPENCL_PATH", str(_library))
