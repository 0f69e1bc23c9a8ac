"""The command `modeld-compile`."""

import argparse
import dataclasses
import difflib
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from compile.build_command import add_arguments, build_artifact
from modeld.command_line import Parser, claim_outputs, run_guarded
from modeld.errors import ModeldError
from modeld.files import read_small, write_result


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command; returns the exit status. User errors are one line on stderr."""
    return run_guarded("modeld-compile", partial(_run, argv), extra="compile")


def _run(argv: Sequence[str] | None) -> int:
    args = _parser().parse_args(argv)
    return int(args.run(args))


def _parser() -> Parser:
    parser = Parser(
        prog="modeld-compile", description="Compile ONNX models into pinned OpenCL artifacts."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="compile an ONNX file into an artifact directory")
    add_arguments(build)
    build.set_defaults(run=_build)
    covered = commands.add_parser(
        "coverage", help="list the operators of a model and what the compiler cannot do"
    )
    covered.add_argument("model", type=Path, metavar="MODEL.onnx")
    covered.add_argument("--json", action="store_true", help="as JSON")
    covered.set_defaults(run=_coverage)
    _add_inspection(commands)
    _add_signing(commands)
    reference = commands.add_parser("reference", help="write the reference driving network as ONNX")
    reference.add_argument("--size", choices=("small", "large"), default="small")
    reference.add_argument("--out", type=Path, required=True, metavar="X.onnx")
    origin = reference.add_mutually_exclusive_group()
    origin.add_argument(
        "--weights",
        type=Path,
        metavar="X.safetensors",
        help="weights that `train` made (default: the trained ones that are shipped, or seed 0)",
    )
    origin.add_argument("--seed", type=int, metavar="N", help="random weights instead")
    reference.set_defaults(run=_reference)
    _add_training(commands)
    return parser


def _add_training(commands: "argparse._SubParsersAction[Parser]") -> None:
    train = commands.add_parser("train", help="train a network, or go on where it was")
    train.add_argument("--config", type=Path, required=True, metavar="X.toml")
    train.add_argument(
        "--out", type=Path, metavar="DIR", help="the run's directory (default: out/NAME-OF-CONFIG)"
    )
    train.add_argument("--device", metavar="SELECTOR", help="OpenCL device, as for build")
    train.add_argument(
        "--start-from",
        type=Path,
        metavar="X.safetensors",
        help="weights that a driving network begins with (default: seeded by the configuration)",
    )
    train.set_defaults(run=_train)
    judge = commands.add_parser(
        "evaluate", help="measure how well a driving network sees, on drives it was not trained on"
    )
    judge.add_argument(
        "weights",
        type=Path,
        nargs="?",
        metavar="RUN|X.safetensors",
        help="a run's directory, or weights (default: the trained ones that are shipped)",
    )
    judge.add_argument("--size", choices=("small", "large"), default="small")
    judge.add_argument("--drives", type=int, default=64, metavar="N", help="of five seconds each")
    judge.add_argument(
        "--out",
        type=Path,
        default=Path("out/evaluation"),
        metavar="DIR",
        help="numbers and pictures (default: out/evaluation)",
    )
    judge.add_argument("--device", metavar="SELECTOR", help="OpenCL device, as for build")
    judge.add_argument(
        "--release",
        type=Path,
        metavar="DIR",
        help="also write a run's weights and the record of their making, as the package ships them",
    )
    judge.set_defaults(run=_evaluate)


def _add_inspection(commands: "argparse._SubParsersAction[Parser]") -> None:
    inspect = commands.add_parser("inspect", help="show what is in an artifact")
    inspect.add_argument("artifact", type=Path, metavar="DIR")
    inspect.add_argument("--json", action="store_true", help="as JSON, everything")
    inspect.add_argument("--html", type=Path, metavar="FILE", help="as a page with pictures")
    inspect.add_argument("--measure", action="store_true", help="run it and time every kernel")
    inspect.add_argument("--device", metavar="SELECTOR", help="where to measure")
    inspect.set_defaults(run=_inspect)
    diff = commands.add_parser("diff", help="say what differs between two artifacts")
    diff.add_argument("artifacts", type=Path, nargs=2, metavar="DIR")
    diff.set_defaults(run=_diff)
    explain = commands.add_parser("explain", help="show the kernels that compute an ONNX node")
    explain.add_argument("artifact", type=Path, metavar="DIR")
    explain.add_argument("node", metavar="NODE", help="a node's name, as `inspect` shows it")
    explain.set_defaults(run=_explain)


def _add_signing(commands: "argparse._SubParsersAction[Parser]") -> None:
    keygen = commands.add_parser("keygen", help="make a key pair for signing artifacts")
    keygen.add_argument("--private", type=Path, required=True, metavar="KEY.pem")
    keygen.add_argument("--public", type=Path, required=True, metavar="KEY.pub")
    keygen.set_defaults(run=_keygen)
    sign = commands.add_parser("sign", help="sign an artifact")
    sign.add_argument("artifact", type=Path, metavar="DIR")
    sign.add_argument("--key", type=Path, required=True, metavar="KEY.pem")
    sign.set_defaults(run=_sign)
    for command in (keygen, sign):
        command.add_argument(
            "--password-file", type=Path, metavar="FILE", help="first line: the key's password"
        )


def _keygen(args: argparse.Namespace) -> int:
    from compile.signing import generate_key

    public = generate_key(args.private, args.public, _password(args.password_file))
    print(public.key_id)
    return 0


def _sign(args: argparse.Namespace) -> int:
    from compile.signing import sign_artifact

    print(sign_artifact(args.artifact, args.key, _password(args.password_file)).key_id)
    return 0


def _password(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        password = read_small(path).partition("\n")[0].removesuffix("\r")
    except UnicodeDecodeError:
        password = ""
    if not password:  # which would leave the key open
        raise ModeldError(f"{path} has no text in its first line; write the password there")
    return password


def _inspect(args: argparse.Namespace) -> int:
    from compile import inspect
    from modeld.artifact import open_artifact
    from modeld.executor import Executor
    from modeld.opencl import select_device

    claim_outputs((args.html, "page", [".html", ".htm"]))
    artifact = open_artifact(args.artifact)
    times = None
    if args.measure:
        device = select_device(args.device) if args.device else None
        sys.stderr.write("compiling and timing every kernel\n")
        times = inspect.measure(artifact, Executor(artifact, device, profile=True))
    if args.html:
        from compile.inspect_html import page

        write_result(args.html, page(artifact, times).encode())
    elif args.json:
        print(json.dumps(inspect.summary(artifact, times), indent=1, sort_keys=True))
    else:
        print(inspect.report(artifact, times))
    return 0


def _diff(args: argparse.Namespace) -> int:
    from compile.inspect import differences
    from modeld.artifact import open_artifact

    first, second = (open_artifact(path).manifest for path in args.artifacts)
    lines = list(differences(first, second))
    print("\n".join(lines) if lines else "no difference")
    return 1 if lines else 0


def _explain(args: argparse.Namespace) -> int:
    from compile.inspect import explain, model_entry
    from modeld.artifact import open_artifact

    artifact = open_artifact(args.artifact)
    launches = explain(artifact.manifest, args.node)
    if not launches:
        nodes = sorted({n for call in model_entry(artifact.manifest).calls for n in call.nodes})
        close = difflib.get_close_matches(args.node, nodes, n=3)
        hint = f"; close: {', '.join(close)}" if close else ""
        raise ModeldError(f"no kernel computes a node named {args.node!r}{hint}")
    for number, call in launches.items():
        print(f"launch {number}: {call.kernel}, {call.macs:,} multiply-accumulates")
        print(f"  work-items {list(call.global_size)}, work-group {call.local_size}")
        print(f"  nodes: {', '.join(call.nodes)}")
        for argument in call.arguments:
            end = argument.offset + argument.bytes
            print(f"  {argument.access:<10} {argument.buffer}[{argument.offset}:{end}]")
        print(artifact.read(call.program).decode())
    return 0


def _build(args: argparse.Namespace) -> int:
    print(build_artifact(args))
    return 0


def _coverage(args: argparse.Namespace) -> int:
    from compile.coverage import coverage
    from compile.rules import read_model, refusal

    model = read_model(args.model)
    found = coverage(model)
    refused = refusal(args.model, model, bool(found.unsupported))
    status = 0 if found.complete and not refused else 1
    if args.json:
        print(json.dumps(dataclasses.asdict(found) | {"refused": refused}, indent=2))
        return status
    for operator in found.operators:
        print(f"{'missing' if operator.reason else 'ok':8}{operator}")
    for name, kind in found.types.items():
        print(f"missing {name}: element type {kind} is not supported")
    for name, nodes in found.shape_inputs.items():
        print(f"freeze  {name} (--const {name}=FILE.safetensors): decides shapes of {nodes[0]}")
    if refused:
        print(f"refused {refused}")
    return status


def _reference(args: argparse.Namespace) -> int:
    from compile.reference import build_reference
    from compile.reference.weights import load

    claim_outputs((args.out, "model", [".onnx"]))
    weights = load(args.weights) if args.weights else None
    model = build_reference(args.size, weights, args.seed)
    write_result(args.out, model.SerializeToString(deterministic=True))
    return 0


def _train(args: argparse.Namespace) -> int:
    from compile.training.command import run

    out = args.out or Path("out") / args.config.stem
    return run(args.config, out, args.device, args.start_from)


def _evaluate(args: argparse.Namespace) -> int:
    from compile.training.driving.judge import Request, run

    return run(Request(args.weights, args.size, args.drives, args.out, args.device, args.release))
