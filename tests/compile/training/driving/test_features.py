"""Features on disk: made once, made again when they are not what was kept."""

from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

from compile.reference.topology import Topology
from compile.reference.weights import seeded
from compile.training.driving.data import make_batch
from compile.training.driving.features import FeatureCache, Floats, FrozenVision
from compile.training.driving.model import to_tensors, watched
from compile.training.driving.world import drive_images

TINY = Topology("tiny", 4, (8, 8, 8, 8), (0, 1, 0, 0), (2, 2), 16, 2, 16)
VALUES = np.arange(6, dtype=np.float32).reshape(1, 2, 3)


def stored(folder: Path) -> FeatureCache:
    """A cache in `folder` that holds VALUES as "key"."""
    cache = FeatureCache(folder)
    assert np.array_equal(cache.get("key", VALUES.shape, lambda: VALUES), VALUES)
    assert (cache.made, cache.found) == (1, 0)
    return cache


def refused() -> Floats:
    raise AssertionError("was made again")


def test_what_was_kept_is_found_by_later_runs(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    stored(folder)
    later = FeatureCache(folder)
    assert np.array_equal(later.get("key", VALUES.shape, refused), VALUES)
    assert (later.made, later.found) == (0, 1)
    assert [path.name for path in folder.iterdir()] == ["key"]


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "longer", "gone", "shape"])
def test_what_was_damaged_is_made_again(tmp_path: Path, damage: str) -> None:
    cache = stored(tmp_path)
    path = tmp_path / "key"
    content = path.read_bytes()
    flipped = bytes([*content[:-1], content[-1] ^ 1])
    damaged = {"empty": b"", "cut": content[:-4], "flipped": flipped, "longer": content + b"1234"}
    if damage in damaged:
        path.write_bytes(damaged[damage])
    elif damage == "gone":
        path.unlink()
    shape = (1, 2, 2) if damage == "shape" else VALUES.shape
    other = np.full(shape, 7, np.float32)
    assert np.array_equal(cache.get("key", shape, lambda: other), other)
    assert np.array_equal(cache.get("key", shape, refused), other)
    assert (cache.made, cache.found) == (2, 1)


def vision(weights: dict[str, np.ndarray], cache: FeatureCache) -> FrozenVision:
    return FrozenVision(to_tensors(weights), TINY, dtypes.float32, 2, cache)


class Keys(FeatureCache):
    """Remembers which keys were asked for, and makes nothing."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.asked: list[str] = []

    def get(self, key: str, shape: tuple[int, ...], make: object) -> Floats:
        """Zeros."""
        self.asked.append(key)
        return np.zeros(shape, np.float32)


def test_other_weights_or_drives_have_other_features() -> None:
    keys, weights = Keys(), seeded(TINY, 1)
    batch, later = make_batch(1, 0, 1, 2), make_batch(1, 1, 1, 2)
    policy, seeing = (
        weights | {name: weights[name] + np.float32(1e-3)}
        for name in ("trunk.mix.bias", "feature.bias")
    )
    for chosen, looked_at in ((weights, batch), (policy, batch), (seeing, batch), (weights, later)):
        vision(chosen, keys).features(looked_at)
    same, again, *others = keys.asked
    assert same == again
    assert len({same, *others}) == 3


@pytest.mark.slow  # compiles the vision part
def test_features_are_what_the_vision_part_sees(tmp_path: Path) -> None:
    weights, batch = seeded(TINY, 1), make_batch(1, 0, 2, 2)
    features = vision(weights, FeatureCache(tmp_path)).features(batch)
    images = drive_images(Tensor(batch.scenes), Tensor(batch.cameras), 2).realize()
    expected = watched(to_tensors(weights), TINY, images).numpy()
    assert features.shape == (2, 2, 512)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(features, expected, atol=1e-5)
