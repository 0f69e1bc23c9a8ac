"""The first run of everything, before anybody waits for it."""

import numpy as np

from modeld.boundary import FrameExecutor
from modeld.cameras.frame import Frame
from modeld.cameras.nv12 import venus_layout
from modeld.state import ModelInputs, Situation


def warm_up(executor: FrameExecutor) -> None:
    """Run one turn per camera geometry on black frames; leaves the recurrent state at zero.

    Drivers compile, allocate and page in at a kernel's first launch, which can take longer than
    many frames. Raises ModeldError as the executor does.
    """
    inputs = ModelInputs(executor.contract).fill(Situation())
    transforms = np.stack([np.eye(3, dtype=np.float32)] * 2)
    for camera in executor.contract.cameras:
        layout = venus_layout(camera.width, camera.height)
        frame = Frame(np.zeros(layout.bytes, np.uint8), layout, 0, 0, 0)
        executor.run_frame(frame, frame, transforms, inputs)
    executor.reset()
