"""What tinygrad reads from the environment when it is first imported; imported before it."""

import importlib.util
import os
from pathlib import Path

import modeld.environment  # noqa: F401

# tinygrad by itself would look for GPUs of other kinds, then for a CPU device that wants a C
# compiler. Training may ask for CUDA; artifacts are always made with OpenCL.
if os.environ.get("DEV", "").split(":")[0] != "CUDA":
    os.environ["DEV"] = "CL"

# Both must speak through one OpenCL loader, since device handles pass between them: the one inside
# the pyopencl wheel where it has one (then no system library is needed), else the system's.
_SPEC = importlib.util.find_spec("pyopencl")
_FOLDER = Path(_SPEC.origin or "").parent if _SPEC else Path()
for _library in sorted((_FOLDER / ".libs").glob("libOpenCL*.so*")):
    os.environ.setdefault("OPENCL_PATH", str(_library))
