"""A recorded route in miniature."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av

import msgschema
from modeld.replay.log import LogWriter

PERIOD = 50_000_000
# By camera: file, its container and codec, and the service of its encode indices.
_VIDEOS: dict[str, tuple[str, str, str, dict[str, str], str]] = {
    "narrow": ("qcamera.ts", "mpegts", "libx264", {"qp": "4"}, "qNarrowRoadEncodeIdx"),
    "wide": (
        "ecamera.hevc",
        "hevc",
        "libx265",
        {"x265-params": "bframes=0:log-level=none"},
        "wideRoadEncodeIdx",
    ),
}
START = 7_000_000_000  # a log's clock is not this machine's


def event(member: str, time: int, **values: Any) -> bytes:
    built = msgschema.load().Event.new_message(logMonoTime=time, valid=True)
    content = built.init(member)
    for name, value in values.items():
        setattr(content, name, value)
    data: bytes = built.to_bytes()
    return data


def write_route(
    folder: Path,
    count: int = 4,
    answers: Callable[[Any, int], None] | None = None,
    camera: str = "narrow",
) -> Path:
    """A segment with a video of one camera whose pictures are grey: 40, 50, 60, …

    It is a preview of the narrow camera, or the full video of the wide one.
    `answers` fills the modelV2 that the log holds of a frame; without it there is none.
    """
    segment = folder / "drive--0"
    segment.mkdir()
    video, form, codec, options, encoding = _VIDEOS[camera]
    with av.open(str(segment / video), "w", format=form) as container:
        stream = container.add_stream(codec, rate=20)
        stream.width, stream.height, stream.pix_fmt = 526, 298, "yuv420p"
        stream.options = {"preset": "ultrafast", **options}
        for number in range(count):
            frame = av.VideoFrame(526, 298, "yuv420p")
            for plane, level in zip(frame.planes, (40 + 10 * number, 128, 128), strict=True):
                plane.update(bytes([level]) * (plane.line_size * plane.height))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with LogWriter(segment / "rlog.zst") as log:
        log.write(event("deviceState", START - 5, deviceType="mici"))
        for number in range(count):
            sof, eof = START + number * PERIOD, START + number * PERIOD + 20_000_000
            where = {"frameId": 100 + number, "timestampSof": sof, "timestampEof": eof}
            log.write(event(f"{camera}RoadCameraState", eof, sensor="os04c10", **where))
            log.write(event("extrinsicsCalibration", eof + 1, rpyCalib=[0.0, 0.01, 0.02]))
            log.write(event("carState", eof + 2, vEgo=20.0 + number))
            index = {"encodeId": number, "segmentId": number, "segmentNum": 0}
            if answers is not None:
                built = msgschema.load().Event.new_message(logMonoTime=eof + 2, valid=True)
                content = built.init("modelV2")
                content.frameId = 100 + number
                answers(content, number)
                log.write(built)
            log.write(event(encoding, eof + 3, **where, **index))
    return segment
