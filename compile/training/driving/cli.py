"""`python -m compile.training.driving.cli`: train the reference network, or judge its weights."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from compile.reference.weights import load
from compile.training.driving.checkpoint import STATE, resume_run, save_run, start_run
from compile.training.driving.evaluate import evaluate, save_report
from compile.training.driving.loop import Config, Trainer
from modeld.errors import ModeldError


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="compile.training.driving", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train from the beginning, or resume")
    train.add_argument("--out", type=Path, required=True, help="folder of the run's files")
    train.add_argument("--save-every", type=float, default=60, help="seconds between saves")
    for field in dataclasses.fields(Config):
        flag = "--" + field.name.replace("_", "-")
        train.add_argument(flag, type=type(field.default), default=field.default)
    judge = commands.add_parser("evaluate", help="measure weights on drives held out from training")
    judge.add_argument("--weights", type=Path, required=True, help="safetensors")
    judge.add_argument("--size", default="small")
    judge.add_argument("--drives", type=int, default=64)
    judge.add_argument("--device", default="CL")
    judge.add_argument("--out", type=Path, required=True, help="folder for numbers and plots")
    options = parser.parse_args(arguments)
    try:
        return _train(options) if options.command == "train" else _evaluate(options)
    except ModeldError as error:
        print(f"modeld-compile: error: {error}", file=sys.stderr)
        return error.exit_code


def _train(options: argparse.Namespace) -> int:
    config = Config(**{f.name: getattr(options, f.name) for f in dataclasses.fields(Config)})
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    resumes = (out / STATE).exists()
    trainer = resume_run(out, config) if resumes else start_run(config)
    print(f"{'resumed at' if resumes else 'starts at'} step {trainer.step_number}", file=sys.stderr)

    def save(run: Trainer) -> None:
        digest = save_run(out, run)
        print(f"saved step {run.step_number}, weights sha256 {digest}", file=sys.stderr)

    with (out / "log.jsonl").open("a") as log:
        for report in trainer.run(save, options.save_every):
            log.write(json.dumps(report.as_dict()) + "\n")
            log.flush()
            print(
                f"step {report.step:6d} {report.progress:6.1%} loss {report.loss:8.4f} "
                f"(numbers {report.numbers:.4f} chances {report.chances:.4f} choices "
                f"{report.choices:.4f}) rate {report.rate:.2e} "
                f"{report.samples_per_second:7.1f} samples/s {report.seconds:6.0f} s",
                file=sys.stderr,
            )
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    metrics = evaluate(load(options.weights), options.size, options.drives, options.device)
    save_report(metrics, options.out)
    for name, row in metrics.summary().items():
        verdict = "ok" if row["met"] else "MISSED"
        print(f"{name:42s} {row['value']:8.4f}  (goal {row['limit']})  {verdict}")
    return 0 if metrics.passed() else 1


if __name__ == "__main__":
    sys.exit(main())
