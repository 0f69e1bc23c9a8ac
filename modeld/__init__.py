"""modeld: runs a pinned OpenCL artifact on camera frames and publishes what the model sees.

from modeld import Executor, open_artifact

executor = Executor(open_artifact("artifacts/driving"))
outputs = executor.run("run_model", {"new_img": image, "desire": desire, ...})
"""

__all__ = ["Executor", "open_artifact"]

TYPE_CHECKING = False  # not typing's, since a Ctrl-C during that long import would be a traceback
if TYPE_CHECKING:
    from modeld.artifact import open_artifact
    from modeld.executor import Executor


def __getattr__(name: str) -> object:
    # Late, so that a program that only speaks messages does not open an OpenCL loader.
    if name == "Executor":
        from modeld.executor import Executor

        return Executor
    if name == "open_artifact":
        from modeld.artifact import open_artifact

        return open_artifact
    raise AttributeError(f"module 'modeld' has no attribute {name!r}")
