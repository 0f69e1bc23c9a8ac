"""The weights that the package carries, and the record of how they were made.

`shipped/SIZE.safetensors` holds float16; `shipped/SIZE.json` says from which run, checkpoint and
configuration they are and what they were measured at. `modeld-compile evaluate RUN --release`
writes the two.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from compile.reference.weights import Array, Weights
from modeld.errors import ModeldError
from modeld.files import make_folder, write_result

FOLDER = Path(__file__).parent / "shipped"


def shipped_sizes(folder: Path = FOLDER) -> list[str]:
    """Sizes of the network for which there are trained weights."""
    return sorted(path.stem for path in folder.glob("*.safetensors"))


def shipped(size: str, folder: Path = FOLDER) -> tuple[dict[str, Array], dict[str, Any]]:
    """Weights (float32) and record. Raises ModeldError when the two do not belong together."""
    weights, record = folder / f"{size}.safetensors", folder / f"{size}.json"
    try:
        content, document = weights.read_bytes(), json.loads(record.read_bytes())
    except (OSError, ValueError) as error:
        raise ModeldError(
            f"trained weights of size {size} cannot be read ({error}); use --seed, or install again"
        ) from None
    found, wanted = hashlib.sha256(content).hexdigest(), document.get("sha256")
    if found != wanted:
        raise ModeldError(
            f"{weights} has sha256 {found[:12]}, its record says {str(wanted)[:12]}; install again"
        )
    return {name: array.astype(np.float32) for name, array in load(content).items()}, document


def rounded(weights: Weights) -> dict[str, Array]:
    """The weights as they will be read back."""
    return {name: a.astype(np.float16).astype(np.float32) for name, a in weights.items()}


def release(weights: Weights, record: dict[str, Any], size: str, folder: Path) -> None:
    """Write weights and record as the package carries them. Raises ModeldError."""
    content = save({name: array.astype(np.float16) for name, array in weights.items()})
    document = {"sha256": hashlib.sha256(content).hexdigest(), **record}
    make_folder(folder)
    weights_file, record_file = released_files(folder, size)
    write_result(weights_file, content)
    write_result(record_file, json.dumps(document, indent=1).encode() + b"\n")


def released_files(folder: Path, size: str) -> tuple[Path, Path]:
    """The weights' file in `folder`, and their record's."""
    return folder / f"{size}.safetensors", folder / f"{size}.json"
