"""Colours and lettering that overlay, inset and plots share."""

from functools import cache

from PIL import ImageFont

Colour = tuple[int, int, int]
Paint = tuple[int, int, int, int]

PATH: Colour = (35, 220, 140)
# Painted lines are white and yellow: predicted ones must not look like them.
LANE: Colour = (60, 215, 255)
OUTER_LANE: Colour = (120, 150, 255)
EDGE: Colour = (255, 95, 60)
LEAD: Colour = (255, 200, 40)
TRUTH: Colour = (255, 60, 220)
TEXT: Colour = (240, 244, 248)
FAINT_TEXT: Colour = (150, 162, 176)
PANEL: Paint = (10, 14, 20, 180)
GRID: Paint = (90, 100, 112, 255)
CONFIDENCE: dict[str, Colour] = {
    "red": (235, 60, 60),
    "yellow": (250, 200, 50),
    "green": (60, 210, 110),
}


def paint(colour: Colour, opacity: float) -> Paint:
    """The colour with an opacity of 0 to 1."""
    return (*colour, round(255 * opacity))


@cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font, so that pictures look alike on every machine."""
    return ImageFont.load_default(size)
