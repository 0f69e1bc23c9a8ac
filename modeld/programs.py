"""Building the artifact's OpenCL programs, from source or from the private binary cache."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyopencl as cl

from modeld.artifact import Artifact
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

    The order is kept because one driver is known to give a slower binary for the same source
    when it is compiled later in a process.
    """
    device = context.devices[0]
    info = describe_device(device)
    options = artifact.manifest.toolchain.build_options
    programs = Programs({}, {})
    for entry_point in artifact.manifest.entry_points:
        for call in entry_point.calls:
            if call.program in programs.by_path:
                continue
            source = artifact.read(call.program)
            key = program_key(source, options, info)
            program = _load_binary(context, cache.load(key), options)
            if program is None:
                program = _compile(context, call.program, source, options)
                programs.fresh[call.program] = key
            programs.by_path[call.program] = program
    return programs


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
