"""`modeld check DIR`: is this artifact whole, is it the pinned one, can it run on this device?"""

import argparse

from modeld import opencl, selftest, verdict
from modeld.commands import options
from modeld.executor import preferred_device


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    options.add_artifact(parser)
    parser.add_argument(
        "--no-run", action="store_true", help="verify files and verdict only, do not run anything"
    )


def run(args: argparse.Namespace) -> int:
    """Print the verdict with its reasons; exit 0 for ok or an allowed degradation."""
    opened = options.open_trusted(args)
    manifest = opened.manifest
    opened.verify_files()
    print(f"artifact   {manifest.name} ({manifest.contract.kind}, {manifest.contract.generation})")
    print(f"identity   {opened.digest}")
    if options.read_pin(args) is None and not args.trust:
        print("pin        none given: whether this is the artifact you mean, nothing says")
    print(f"files      {len(manifest.files)} verified")
    device = opencl.select_device(args.device) if args.device else preferred_device(opened)
    info = opencl.describe_device(device)
    print(f"device     {info.device} ({info.platform}, driver {info.driver})")
    findings = verdict.judge_target(manifest, info)
    for finding in findings:
        print(f"reason     {finding.reason}: {finding.message}")
    print(f"verdict    {verdict.verdict(findings, args.allow)}", flush=True)
    verdict.require_runnable(findings, args.allow)
    if not args.no_run:
        executor = options.load_executor(args, opened)
        result = selftest.check(executor, opened)
        executor.keep_programs()
        worst = max(result.worst.values(), default=0.0)
        found = "equal bit for bit" if result.exact else f"within tolerance, worst {worst:.3g}"
        print(f"self-test  {found}")
        print(f"programs   {executor.cache.hits} from cache, {executor.cache.misses} compiled")
        for failure in executor.cache.failures:
            print(f"not kept   {failure}")
    return 0
