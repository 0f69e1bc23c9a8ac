"""Building the artifact's OpenCL programs, from source or from the private binary cache."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyopencl as cl

from modeld.artifact import Artifact
from modeld.compiling import compile_together
from modeld.errors import ModeldError
from modeld.opencl import describe_device
from modeld.program_cache import ProgramCache, program_key


@contextmanager
def opencl_errors(action: str) -> Iterator[None]:
    """Translate driver errors, once, at the boundary: one line that says what was being done."""
    try:
        yield
    except cl.Error as error:
        line = " ".join(str(error).split())[:300]
        raise ModeldError(f"{action} failed: {line}") from error
    except MemoryError:
        raise ModeldError(f"{action} failed: out of memory; use a smaller model") from None


@dataclass
class Programs:
    """Built programs by their path in the artifact; `fresh` ones are not in the cache yet."""

    by_path: dict[str, cl.Program]
    fresh: dict[str, str]  # path -> cache key

    def kernel(self, path: str, name: str) -> cl.Kernel:
        """A new kernel object, with arguments of its own. Raises ModeldError for a wrong name."""
        with opencl_errors(f"finding kernel {name} in {path}"):
            return cl.Kernel(self.by_path[path], name)

    def store(self, cache: ProgramCache) -> None:
        """Keep the binaries of fresh programs. Call it after every kernel has run once.

        PoCL and Mali finish compiling at the first launch, so an earlier binary would be hollow.
        """
        for path, key in self.fresh.items():
            with opencl_errors(f"reading the binary of {path}"):
                binaries = self.by_path[path].get_info(cl.program_info.BINARIES)
            cache.store(key, bytes(binaries[0]))
        self.fresh.clear()


def build_programs(context: cl.Context, artifact: Artifact, cache: ProgramCache) -> Programs:
    """Build every program that the entry points name, in the manifest's order.

    Those that are not in the cache are compiled in processes of their own where that is quicker.
    In this process the order is kept because one driver is known to give a slower binary for the
    same source when it is compiled later.
    """
    device = context.devices[0]
    options = artifact.manifest.toolchain.build_options
    calls = [call for entry in artifact.manifest.entry_points for call in entry.calls]
    sources = {path: artifact.read(path) for path in dict.fromkeys(c.program for c in calls)}
    info = describe_device(device)
    keys = {path: program_key(source, options, info) for path, source in sources.items()}
    built = {path: _load_binary(context, cache.load(key), options) for path, key in keys.items()}
    missing = {path: sources[path] for path, program in built.items() if program is None}
    compiled = compile_together(device, missing, options)
    for path, source in missing.items():
        built[path] = _load_binary(context, compiled.get(path), options) or _compile(
            context, path, source, options
        )
    by_path = {path: program for path, program in built.items() if program is not None}
    return Programs(by_path, {path: keys[path] for path in missing})


def _load_binary(context: cl.Context, binary: bytes | None, options: str) -> cl.Program | None:
    if binary is None:
        return None
    try:
        program = cl._cl._Program(context, context.devices, [binary])
        program._build(options.encode(), context.devices)
    except cl.Error:  # made by a driver that calls itself the same: as good as no entry
        return None
    return cl.Program(program)


def _compile(context: cl.Context, path: str, source: bytes, options: str) -> cl.Program:
    # The plain binding instead of cl.Program.build, which would consult pyopencl's pickle cache.
    program = cl._cl._Program(context, source)
    with opencl_errors(f"compiling {path} for {context.devices[0].name.strip()}"):
        program._build(options.encode(), context.devices)
    return cl.Program(program)
