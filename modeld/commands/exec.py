"""`modeld exec DIR [--inputs X] --out Y`: one run of the model on named arrays."""

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import load_file, save

from modeld.command_line import claim_outputs
from modeld.commands import options
from modeld.errors import ModeldError
from modeld.files import cannot_read, write_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    options.add_artifact(parser)
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="X.safetensors",
        help="arrays by the names of the model's inputs, as `modeld-compile inspect` lists them; "
        "state inputs may be among them (default: those of the artifact's own reference run)",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="Y.safetensors", help="where the outputs go"
    )


def run(args: argparse.Namespace) -> int:
    """Run once; state inputs in the file are the initial state, next states come out with it."""
    given = None if args.inputs is None else load_arrays(args.inputs)
    claim_outputs((args.out, "safetensors file", [".safetensors"]))
    artifact = options.open_trusted(args)
    arrays = options.reference_inputs(artifact) if given is None else given
    pairs = artifact.manifest.contract.state
    state = {pair.input: arrays.pop(pair.input) for pair in pairs if pair.input in arrays}
    executor = options.load_executor(args, artifact, initial_state=state)
    outputs = executor.run("run_model", arrays)
    executor.keep_programs()
    following = executor.state()
    outputs |= {pair.output: following[pair.input] for pair in pairs}
    write_result(args.out, save({k: np.ascontiguousarray(v) for k, v in outputs.items()}))
    for name, array in sorted(outputs.items()):
        print(f"{name} {array.dtype}{list(array.shape)}")
    return 0


def load_arrays(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """All arrays of a safetensors file by name. Raises ModeldError when it cannot be read."""
    try:
        path.open("rb").close()  # safetensors has no reason for what it cannot open
        return dict(load_file(path))
    except OSError as error:
        raise cannot_read(path, error) from None
    except safetensors.SafetensorError as error:
        raise ModeldError(
            f"{path} is no safetensors file ({error}); write the arrays with safetensors.numpy"
        ) from None
