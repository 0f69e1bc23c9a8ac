"""The command `modeld-compile`."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from modeld.errors import ModeldError
from modeld.files import write_atomic
from modeld.manifest import Camera


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command; returns the exit status. User errors are one line on stderr."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        return int(args.run(args))
    except ModeldError as error:
        # A progress line may be open.
        print(f"\nmodeld-compile: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nmodeld-compile: interrupted, nothing was written", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="modeld-compile", description="Compile ONNX models into pinned OpenCL artifacts."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="compile an ONNX file into an artifact directory")
    build.add_argument("model", type=Path, metavar="MODEL.onnx")
    build.add_argument("--out", type=Path, required=True, metavar="DIR", help="artifact directory")
    build.add_argument(
        "--camera",
        action="append",
        default=[],
        type=_camera,
        metavar="WxH",
        help="frame size to warp from (repeatable; default for driving models: "
        "1928x1208 and 1344x760)",
    )
    build.add_argument(
        "--device", metavar="SELECTOR", help="part of the OpenCL platform's name, optionally :INDEX"
    )
    build.add_argument(
        "--dim",
        action="append",
        default=[],
        type=_dim,
        metavar="NAME=N",
        help="value of a symbolic dimension (repeatable)",
    )
    build.add_argument("--name", help="name of the artifact (default: the file's)")
    build.add_argument(
        "--const",
        action="append",
        default=[],
        type=_const,
        metavar="NAME=FILE.safetensors",
        help="fix an input that decides shapes (repeatable)",
    )
    build.add_argument(
        "--reference-inputs",
        type=Path,
        metavar="FILE.safetensors",
        help="inputs by name for the first known run, where random ones are out of range",
    )
    build.set_defaults(run=_build)
    reference = commands.add_parser("reference", help="write the reference driving network as ONNX")
    reference.add_argument("--size", choices=("small", "large"), default="small")
    reference.add_argument("--out", type=Path, required=True, metavar="X.onnx")
    reference.set_defaults(run=_reference)
    return parser


def _build(args: argparse.Namespace) -> int:
    from compile.build import STAGES, BuildRequest, build
    from compile.files import load_arrays, load_constants
    from compile.progress import StderrProgress

    request = BuildRequest(
        model=args.model,
        out=args.out,
        cameras=tuple(args.camera),
        device=args.device,
        dims=dict(args.dim),
        name=args.name,
        constants=load_constants(args.const),
        reference_inputs=load_arrays(args.reference_inputs) if args.reference_inputs else {},
    )
    print(build(request, StderrProgress(STAGES)))
    return 0


def _reference(args: argparse.Namespace) -> int:
    from compile.reference import build_reference

    try:
        write_atomic(args.out, build_reference(args.size).SerializeToString(deterministic=True))
    except OSError as error:
        raise ModeldError(f"{args.out} cannot be written ({error.strerror})") from None
    return 0


def _camera(text: str) -> Camera:
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if not match or int(match[1]) % 2 or int(match[2]) % 2:
        raise argparse.ArgumentTypeError(f"{text!r} is no frame size; write it like 1928x1208")
    return Camera(int(match[1]), int(match[2]))


def _dim(text: str) -> tuple[str, int]:
    name, _, value = text.rpartition("=")
    if not name or not re.fullmatch(r"[1-9]\d*", value):
        raise argparse.ArgumentTypeError(f"{text!r} is no dimension; write it like batch=1")
    return name, int(value)


def _const(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if not name or not path:
        raise argparse.ArgumentTypeError(f"{text!r} lacks a part; write NAME=FILE.safetensors")
    return name, Path(path)
