"""The models of the comparison, and where they come from."""

import os
from dataclasses import dataclass
from pathlib import Path

DATA = Path(os.environ.get("MODELD_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))


@dataclass(frozen=True)
class Model:
    """A model file below the data folder, or a size of the reference network."""

    name: str
    source: str

    def path(self, folder: Path) -> Path | None:
        """The ONNX file, written to `folder` if it is generated; None when there is no data."""
        if self.source.endswith(".onnx"):
            path = DATA / self.source
            # Pointers of a large-file store are a few lines of text.
            return path if path.exists() and path.stat().st_size > 1024 else None
        from compile.reference import build_reference

        path = folder / f"{self.name}.onnx"
        path.write_bytes(build_reference(self.source).SerializeToString(deterministic=True))
        return path


MODELS = (
    Model("reference_large", "large"),
    Model("reference_small", "small"),
    Model("supercombo_0.7", "models/openpilot/supercombo_0.7_topology_random_weights.onnx"),
    Model("dmonitoring_0.8.9", "models/openpilot/dmonitoring_model_0.8.9.onnx"),
    Model("yolox_nano", "models/other/yolox_nano.onnx"),
    Model("ultraface_rfb_320", "models/other/ultraface_rfb_320.onnx"),
    Model("vitTracker", "models/other/vitTracker.onnx"),
    Model("twinlitenet", "models/driving/twinlitenet.onnx"),
)
