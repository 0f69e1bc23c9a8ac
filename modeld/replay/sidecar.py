"""The sidecar: a TOML file that says which camera took a clip and how it was mounted.

A clip alone does not tell where a pixel looks, so every clip needs one:

    [camera]
    size = [960, 540]            # pixels, as the clip has them
    focal_length = 950.0         # pixels
    center = [480.0, 270.0]      # principal point; default: the middle
    distortion = [k1, k2, p1, p2, k3]  # Brown-Conrady, as OpenCV calibrates; default: none

    [mount]
    rpy = [0.0, -0.036, 0.001]   # radians, device in calibrated frame, as rpyCalib
    height = 1.22                # metres above the road

    [drive]
    speed = 25.0                 # m/s, published as carState.vEgo; default 20

    [colour]                     # only where the clip itself is wrong or silent
    matrix = "bt709"             # or "bt601"
    range = "limited"            # or "full"
"""

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modeld.calibration import Intrinsics
from modeld.errors import ModeldError
from modeld.files import read_small

# Where sidecars of well-known public clips are kept, for clips in read-only folders.
EXAMPLES = Path(__file__).parents[2] / "examples" / "sidecars"
DEFAULT_SPEED = 20.0

_KEYS = {
    "camera": {"size", "focal_length", "center", "distortion"},
    "mount": {"rpy", "height"},
    "drive": {"speed"},
    "colour": {"matrix", "range"},
}


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A clip's camera: lengths in pixels, angles in radians, height in metres, speed in m/s.

    `colour_matrix` and `colour_range` are None where the clip's own tags hold.
    """

    camera: Intrinsics
    rpy: tuple[float, float, float]
    camera_height: float
    speed: float = DEFAULT_SPEED
    distortion: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    colour_matrix: str | None = None
    colour_range: str | None = None


def find_sidecar(clip: Path, given: Path | None = None) -> Path:
    """The sidecar of `clip`: the one given, the one beside it, or one of the examples.

    Raises ModeldError naming the places looked at when there is none.
    """
    candidates = [given] if given else list(_candidates(clip))
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    looked = ", ".join(str(candidate) for candidate in candidates)
    raise ModeldError(
        f"{clip} has no sidecar (looked for {looked}); write one with the camera's focal_length, "
        "center, rpy and height (docs/replay.md) or name one by --sidecar"
    )


def _candidates(clip: Path) -> Iterator[Path]:
    if clip.is_dir():
        yield clip / "sidecar.toml"
        yield clip.parent / f"{clip.name}.toml"
    else:
        yield clip.with_suffix(".toml")
    yield EXAMPLES / f"{clip.stem}.toml"


def read_sidecar(path: Path) -> Sidecar:
    """Read a sidecar strictly: unknown keys, wrong lengths and impossible values are refused.

    Raises ModeldError naming the file, the key and the value.
    """
    try:
        document = tomllib.loads(read_small(path, "sidecar"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ModeldError(f"sidecar {path} is not TOML ({error}); correct the file") from None
    reader = _Reader(path, document)
    width, height = reader.numbers("camera", "size", 2)
    if width != int(width) or height != int(height) or min(width, height) < 2:
        raise reader.wrong("camera", "size", "two whole numbers of pixels")
    center = reader.numbers("camera", "center", 2, [width / 2, height / 2])
    return Sidecar(
        camera=Intrinsics(
            int(width), int(height), reader.positive("camera", "focal_length"), *center
        ),
        rpy=_three(reader.numbers("mount", "rpy", 3)),
        camera_height=reader.positive("mount", "height"),
        speed=reader.numbers("drive", "speed", None, [DEFAULT_SPEED])[0],
        distortion=_five(reader.numbers("camera", "distortion", 5, [0.0] * 5)),
        colour_matrix=reader.word("colour", "matrix", ("bt601", "bt709")),
        colour_range=reader.word("colour", "range", ("limited", "full")),
    )


class _Reader:
    """Reads values by table and key; every complaint names the file, the key and the value."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self._path = path
        self._document = document
        for table, content in document.items():
            known = _KEYS.get(table)
            if known is None or not isinstance(content, dict):
                tables = ", ".join(f"[{name}]" for name in _KEYS)
                raise ModeldError(f"sidecar {path} has unknown {table}; known are {tables}")
            if extra := sorted(content.keys() - known):
                raise ModeldError(
                    f"sidecar {path} has unknown {table}.{extra[0]}; known are "
                    + ", ".join(sorted(known))
                )

    def wrong(self, table: str, key: str, expected: str) -> ModeldError:
        value = self._document.get(table, {}).get(key)
        found = "is missing" if value is None else f"is {value!r}"
        return ModeldError(f"sidecar {self._path}: {table}.{key} {found}, expected {expected}")

    def numbers(
        self, table: str, key: str, count: int | None, default: list[float] | None = None
    ) -> list[float]:
        """`count` finite numbers, or the single number of a scalar key (count None)."""
        value = self._document.get(table, {}).get(key, default)
        values = [value] if count is None and not isinstance(value, list) else value
        expected = "a number" if count is None else f"{count} numbers"
        if not isinstance(values, list) or len(values) != (count or 1):
            raise self.wrong(table, key, expected)
        for item in values:
            if isinstance(item, bool) or not isinstance(item, int | float):
                raise self.wrong(table, key, expected)
            if not math.isfinite(item):
                raise self.wrong(table, key, "finite numbers")
        return [float(item) for item in values]

    def positive(self, table: str, key: str) -> float:
        (value,) = self.numbers(table, key, None)
        if value <= 0:
            raise self.wrong(table, key, "a number above zero")
        return value

    def word(self, table: str, key: str, words: tuple[str, ...]) -> str | None:
        value = self._document.get(table, {}).get(key)
        if value is None:
            return None
        if value not in words:
            raise self.wrong(table, key, " or ".join(words))
        return str(value)


def _three(values: list[float]) -> tuple[float, float, float]:
    return values[0], values[1], values[2]


def _five(values: list[float]) -> tuple[float, float, float, float, float]:
    return values[0], values[1], values[2], values[3], values[4]
