"""One process that compiles OpenCL programs for another: source in, device binary out.

Started by `modeld.compiling` as `python -m modeld.compiler_process DEVICE OPTIONS`, DEVICE being a
position in `list_devices`. On stdin come programs, on stdout go their binaries, each as 8 bytes
little-endian length and then the bytes; no bytes mean that the program did not compile.
"""

import sys
from typing import IO

import pyopencl as cl

from modeld.opencl import list_devices

# Binaries of one program are below 10 MB on every driver met.
MAX_BYTES = 256 << 20


def write_block(stream: IO[bytes], content: bytes) -> None:
    """Send `content` behind its length."""
    stream.write(len(content).to_bytes(8, "little") + content)
    stream.flush()


def read_block(stream: IO[bytes]) -> bytes | None:
    """What `write_block` sent; None where the stream ends or holds something else."""
    head = stream.read(8)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or length > MAX_BYTES:
        return None
    content = stream.read(length)
    return content if len(content) == length else None


def compile_binary(context: cl.Context, source: bytes, options: str) -> bytes:
    """The binary of one program for the context's device; empty when it does not compile."""
    try:
        program = cl._cl._Program(context, source)
        program._build(options.encode(), context.devices)
        return bytes(program.get_info(cl.program_info.BINARIES)[0])
    except cl.Error:
        return b""


def main() -> None:
    """Compile what comes until the stream ends."""
    context = cl.Context([list_devices()[int(sys.argv[1])]])
    while (source := read_block(sys.stdin.buffer)) is not None:
        write_block(sys.stdout.buffer, compile_binary(context, source, sys.argv[2]))


if __name__ == "__main__":
    main()
