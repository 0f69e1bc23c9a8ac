"""Training: offline, on the build side only; nothing of it runs in a vehicle."""

# Before tinygrad opens a device: the OpenCL platform and the renderer that builds use.
import compile.device  # noqa: F401
import modeld.opencl  # noqa: F401
