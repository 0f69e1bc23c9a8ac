"""From rays to pixels: pinhole geometry, exposure, response, noise, and BT.601 colour.

Luma and chroma are functions of the camera's pixel, so the same numbers come out whether a whole
frame is drawn and then read by the warp, or only the pixels that the warp would read.
"""

from collections.abc import Mapping

from modeld.replay.road.maths import Array, Maths, clip01, mix, scramble, unit
from modeld.replay.road.shading import FULL, Colour, Detail, Parameters, Rays, shade

# BT.601, limited range (ITU-R BT.601-7, 2.5): luma 16 to 235, chroma 16 to 240.
_LUMA = (65.481, 128.553, 24.966)
_U = (-37.797, -74.203, 112.0)
_V = (112.0, -93.786, -18.214)

# Per camera: focal length and centre in pixels, size, blur in pixels, and the rotation from the
# calibrated frame to the device, row by row.
CAMERA_PARAMETERS = (
    "focal", "center_x", "center_y", "width", "height_px", "blur",
    "r00", "r01", "r02", "r10", "r11", "r12", "r20", "r21", "r22",
)  # fmt: skip


def rays_of(camera: Mapping[str, Array], u: Array, v: Array) -> Rays:
    """The rays of camera pixels (u, v), in the calibrated frame."""
    # Device frame: x forward, y right, z down.
    y = (u - camera["center_x"]) / camera["focal"]
    z = (v - camera["center_y"]) / camera["focal"]
    ahead = camera["r00"] + camera["r10"] * y + camera["r20"] * z
    right = camera["r01"] + camera["r11"] * y + camera["r21"] * z
    down = camera["r02"] + camera["r12"] * y + camera["r22"] * z
    return Rays(right / ahead, down / ahead, camera["blur"] / camera["focal"])


def pixel_rgb(
    maths: Maths,
    p: Parameters,
    camera: Mapping[str, Array],
    u: Array,
    v: Array,
    detail: Detail = FULL,
) -> Colour:
    """Display RGB, 0 to 1, at camera pixels (u, v), noise included."""
    rays = rays_of(camera, u, v)
    colour = shade(maths, p, rays, detail)
    # The car's own bonnet, where the camera sees it: dark, with the sky in it.
    bonnet = p["bonnet"] + p["bonnet_bend"] * rays.n * rays.n
    cover = clip01(maths, (rays.m - bonnet) / (2 * rays.pixel) + 0.5)
    colour = (
        mix(colour[0], p["haze_r"] * 0.12, cover),
        mix(colour[1], p["haze_g"] * 0.12, cover),
        mix(colour[2], p["haze_b"] * 0.12, cover),
    )
    far = (u - camera["center_x"]) / camera["width"]
    high = (v - camera["center_y"]) / camera["width"]
    gain = p["exposure"] * (1 - p["vignette"] * (far * far + high * high))
    white = (1 + p["warm"], 1 + p["tint"], 1 - p["warm"])
    grain = _grain(maths, p, u, v)
    grey = 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2]
    out = []
    for channel, balance in zip(colour, white, strict=True):
        light = maths.maximum(mix(grey, channel, p["saturation"]), 0.0) * gain * balance + p["veil"]
        shown = maths.exp(p["gamma"] * maths.log(maths.maximum(light, 1e-4)))
        out.append(clip01(maths, shown + grain))
    return out[0], out[1], out[2]


def _grain(maths: Maths, p: Parameters, u: Array, v: Array) -> Array:
    word = scramble(maths.unsigned(u), maths.unsigned(v), maths.unsigned(p["frame_seed"]))
    # The sum of two uniforms: near enough to a bell.
    low = maths.floating(word & 0xFFFF) * (1.0 / 65536)
    return (unit(maths, word) + low - 1.0) * 2.0 * p["noise"]


def luma(maths: Maths, rgb: Colour) -> Array:
    """Y of display RGB, rounded, as float."""
    return maths.rint(16 + _weighted(rgb, _LUMA))


def chroma(maths: Maths, rgb: Colour) -> tuple[Array, Array]:
    """U and V of display RGB, rounded, as float."""
    return maths.rint(128 + _weighted(rgb, _U)), maths.rint(128 + _weighted(rgb, _V))


def _weighted(rgb: Colour, weights: tuple[float, float, float]) -> Array:
    return rgb[0] * weights[0] + rgb[1] * weights[1] + rgb[2] * weights[2]
