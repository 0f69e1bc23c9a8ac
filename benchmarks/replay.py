"""`python -m benchmarks.replay ARTIFACT [CLIP]`: is a replay limited by the network, or by us?

Three rates in frames a second, measured in turn in one process: the device alone (frames already
in memory, nothing made of the answers), the replay of a clip decoded before, and the replay of the
clip with its decoding in a thread, as `modeld replay --speed max` does it. The second must reach
90 % of the first.
"""

import argparse
import statistics
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from modeld.artifact import open_artifact
from modeld.cameras.frame import Frame
from modeld.clock import SystemClock
from modeld.config import Config
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.replay.replay import Replay
from modeld.replay.sources import open_source
from modeld.state import ModelInputs, Situation

BUDGET = 0.9
DECODED, DECODING = "clip decoded before", "clip being decoded"
# Where a source begins to be quick: its first second is decoded, and all kernels have run.
_WARM_UP = 25


def device_alone(executor: Executor, frames: list[Frame], count: int) -> float:
    """Frames a second of the executor's calls."""
    transforms = np.stack([np.eye(3, dtype=np.float32)] * 2)
    inputs = ModelInputs(executor.contract).fill(Situation())
    for number in range(_WARM_UP):
        frame = frames[number % len(frames)]
        executor.run_frame(frame, frame, transforms, inputs)
    started = time.perf_counter()
    for number in range(count):
        frame = frames[number % len(frames)]
        executor.run_frame(frame, frame, transforms, inputs)
    return count / (time.perf_counter() - started)


def replayed(executor: Executor, source: str, camera: str, ahead: bool, count: int) -> float:
    """Frames a second of the whole replay, answers taken but not written."""
    total = _WARM_UP + count
    device = open_source(source, camera, SystemClock(), None, count=total, ahead=ahead)
    with closing(device):
        turns = Replay(executor, device, Config()).turns()
        answered, started = 0, 0.0
        for answered, _ in enumerate(turns, 1):
            if answered == _WARM_UP:
                started = time.perf_counter()
            if answered == total:
                break
        spent = time.perf_counter() - started
    if answered < total:
        raise ModeldError(f"{source} has {answered} frames, {total} are needed; give --frames less")
    return count / spent


def prepared(source: str, camera: str, count: int) -> list[Frame]:
    """Frames in memory of their own."""
    frames = []
    with closing(open_source(source, camera, SystemClock(), None, count=count)) as device:
        while device.narrow is not None and len(frames) < count:
            frame = device.narrow.receive(1.0)
            if frame is not None:
                frames.append(Frame(frame.data.copy(), frame.layout, frame.frame_id, 0, 0))
    return frames


def main() -> int:
    """Measure; 1 when the replay of a decoded clip is slower than the budget."""
    parser = argparse.ArgumentParser(prog="benchmarks.replay", description=__doc__)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("clip", help="a video of one camera, with its sidecar")
    parser.add_argument("--frames", type=int, default=60, help="a round's, each way (default 60)")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    executor = Executor(open_artifact(args.artifact))
    camera = executor.contract.cameras[0].name
    frames = prepared(args.clip, camera, 8)
    rates: dict[str, list[float]] = {"device alone": [], DECODED: [], DECODING: []}
    for _ in range(args.rounds):
        rates["device alone"].append(device_alone(executor, frames, args.frames))
        for name, source in ((DECODED, f"loop:{args.clip}"), (DECODING, args.clip)):
            ahead = name == DECODING
            rates[name].append(replayed(executor, source, camera, ahead, args.frames))
    alone = rates["device alone"]
    for name, found in rates.items():
        # Of each round by itself: the machine's own speed changes between them.
        share = statistics.median(f / a for f, a in zip(found, alone, strict=True))
        print(f"{name:<20} {statistics.median(found):8.1f} frames/s  {share:6.1%}")
    share = statistics.median(f / a for f, a in zip(rates[DECODED], alone, strict=True))
    print(f"budget: {BUDGET:.0%} of the device alone on a clip decoded before")
    return int(share < BUDGET)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ModeldError as error:
        sys.exit(f"benchmarks.replay: error: {error}")
