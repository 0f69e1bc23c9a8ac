"""Arrays that a user gives in files."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import load_file

from modeld.errors import ModeldError
from modeld.files import cannot_read

Array = npt.NDArray[np.generic]


def load_arrays(path: Path) -> dict[str, Array]:
    """All arrays of a safetensors file by name. Raises ModeldError when it is none."""
    try:
        # safetensors' own errors of reading have no number, from which a remedy could be told.
        path.open("rb").close()
        return dict(load_file(path))
    except OSError as error:
        raise cannot_read(path, error) from None
    except safetensors.SafetensorError as error:
        raise ModeldError(f"{path} is not a safetensors file ({error})") from None


def load_constants(options: Iterable[tuple[str, Path]]) -> dict[str, Array]:
    """The array of each (name, file): the one so named, or the only one in the file."""
    constants = {}
    for name, path in options:
        arrays = load_arrays(path)
        if name not in arrays and len(arrays) != 1:
            raise ModeldError(f"{path} holds {', '.join(arrays) or 'nothing'}, wanted {name}")
        constants[name] = arrays.get(name, next(iter(arrays.values())))
    return constants
