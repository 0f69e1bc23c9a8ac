"""What a vision part that no longer changes sees of drives: made once, kept on disk.

A file's name is the hash of all that its content depends on: the weights that see, the pictures
(the parameters that they are painted from, and the kernel that paints), the device. So nothing is
ever out of date, runs can share a folder, and what cannot be read is made again.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from math import prod
from pathlib import Path

import numpy as np
from tinygrad import Device, Tensor, TinyJit
from tinygrad.dtype import DType

from compile.reference.topology import FEATURE, Topology
from compile.training.driving.data import Batch
from compile.training.driving.model import is_policy, watched
from compile.training.driving.world import drive_images, source_for
from compile.training.snapshot import hardware
from modeld.files import make_folder, write_result

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

_FORMAT = b"features 1"
_DIGEST = sha256().digest_size


class FeatureCache:
    """Arrays of features in a folder, by key; a file is the sha256 of its values, then these."""

    def __init__(self, folder: Path) -> None:
        """Keep files in `folder`, which is made when there is something to keep."""
        self._folder = folder
        self.found = self.made = 0

    def get(self, key: str, shape: tuple[int, ...], make: Callable[[], Floats]) -> Floats:
        """The float32 array of that key and shape, from the disk or else from `make`.

        Raises ModeldError when the disk does not take what was made.
        """
        path = self._folder / key
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        whole = len(content) == _DIGEST + 4 * prod(shape)
        if whole and sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
            self.found += 1
            return np.frombuffer(bytearray(content), np.float32, offset=_DIGEST).reshape(shape)
        features = make()
        self.made += 1
        make_folder(self._folder)
        values = features.tobytes()
        write_result(path, sha256(values).digest() + values)
        return features


class FrozenVision:
    """The vision part of `weights`, which must not change while this is in use."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        topology: Topology,
        compute: DType,
        steps: int,
        cache: FeatureCache,
    ) -> None:
        """Look at drives of `steps` moments; keep what is seen in `cache`."""
        self.cache, self._steps = cache, steps
        self._identity = sha256(_FORMAT)
        for part in (hardware(Device.DEFAULT), compute.name, source_for(Device.DEFAULT)):
            self._identity.update(part.encode())
        for name, weight in sorted(weights.items()):
            if not is_policy(name):
                self._identity.update(name.encode() + weight.numpy().tobytes())
        self._see = TinyJit(
            lambda scenes, cameras: watched(
                weights, topology, drive_images(scenes, cameras, steps).realize(), compute
            ).realize()
        )

    def features(self, batch: Batch) -> Floats:
        """Features (S, T, 512) of a batch's drives."""
        key = self._identity.copy()
        key.update(batch.scenes.tobytes())
        key.update(batch.cameras.tobytes())
        shape = (*batch.desires.shape[:2], FEATURE)
        return self.cache.get(key.hexdigest(), shape, lambda: self._look(batch))

    def _look(self, batch: Batch) -> Floats:
        # Drive by drive: the maps of a whole batch may be more than the device can hold.
        frames = self._steps + 1
        seen = []
        for first in range(0, len(batch.scenes), frames):
            part = slice(first, first + frames)
            scenes, cameras = Tensor(batch.scenes[part]), Tensor(batch.cameras[part])
            seen.append(self._see(scenes.realize(), cameras.realize()).numpy())
        return np.concatenate(seen)
