"""The options of `modeld-compile build`, and the build that they ask for."""

import argparse
import re
from pathlib import Path

from modeld.command_line import claim_outputs
from modeld.errors import ModeldError
from modeld.files import check_writable
from modeld.manifest import Camera


def add_arguments(build: argparse.ArgumentParser) -> None:
    """Declare the model, where the artifact goes, and how it is made."""
    build.add_argument(
        "model",
        type=Path,
        nargs="+",
        metavar="MODEL.onnx",
        help="the model; of a driving network in several files: vision, then its policies",
    )
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
    build.add_argument(
        "--unverified",
        action="store_true",
        help="build the model also where neither ONNX Runtime nor onnx's evaluator can run it to "
        "compare; the artifact says so",
    )
    _add_kernel_arguments(build)


def _add_kernel_arguments(build: argparse.ArgumentParser) -> None:
    build.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        default="float32",
        help="how weights and values between kernels are stored; float16 halves them, takes "
        "tinygrad's kernels, and leaves arithmetic and sums in float32",
    )
    build.add_argument(
        "--range-report",
        type=Path,
        metavar="FILE.tsv",
        help="with --dtype float16: what every tensor held in the known runs, and how it is kept",
    )
    build.add_argument(
        "--image",
        action="store_true",
        help="weights and activations as image2d, for devices that read these faster (Adreno)",
    )
    build.add_argument(
        "--no-tuned", action="store_true", help="tinygrad's kernels alone, for comparison"
    )
    build.add_argument(
        "--tuning",
        type=Path,
        metavar="FILE.json",
        help="take the kernels' tiles from this tuning file (default: the one shipped for the "
        "device, or an estimate)",
    )
    build.add_argument(
        "--tune",
        type=float,
        nargs="?",
        const=60.0,
        metavar="SECONDS",
        help="time tiles that the tuning file lacks on the device, at most this long (default "
        "60), and write them to the file of --tuning",
    )


def build_artifact(args: argparse.Namespace) -> str:
    """Build with progress on stderr; the artifact's identity."""
    from compile.build import STAGES, build
    from compile.emit import identity
    from compile.files import load_arrays, load_constants
    from compile.progress import StderrProgress
    from compile.request import BuildRequest

    claim_outputs((args.range_report, "table", [".tsv"]))
    if args.tune is not None and args.tuning is not None:
        check_writable(args.tuning)
    request = BuildRequest(
        model=args.model[0],
        out=args.out,
        policies=tuple(args.model[1:]),
        cameras=tuple(args.camera),
        device=args.device,
        dims=dict(args.dim),
        name=args.name,
        constants=load_constants(args.const),
        reference_inputs=load_arrays(args.reference_inputs) if args.reference_inputs else {},
        dtype=args.dtype,
        range_report=args.range_report,
        image=args.image,
        unverified=args.unverified,
        tuned=not args.no_tuned,
        tuning=args.tuning,
        tune_budget_s=args.tune,
    )
    progress = StderrProgress(STAGES)
    replaced = identity(args.out)
    try:
        built = build(request, progress)
    except (ModeldError, KeyboardInterrupt, MemoryError):
        progress.failed()
        raise
    if replaced not in (None, built):
        progress.remark(f"replaced {replaced}")
    return built


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
