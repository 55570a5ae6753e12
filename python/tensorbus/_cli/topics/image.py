"""Images on a terminal: two pixels in each character, one above the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

_MAX_WIDTH = 80  # characters


def draw(pixels: Callable[[int], Any], coloured: bool) -> None:
    """Draws an image, if the terminal has colours.

    Args:
        pixels: called with the maximum of pixels on each side; returns the image, uint8 of shape
            (height, width, 1 or 3), or None if the tensor is not an image.
        coloured: use colours even if standard output is not a terminal.
    """
    console = (
        Console(force_terminal=True, color_system="truecolor", width=_MAX_WIDTH)
        if coloured
        else Console()
    )
    image = pixels(min(console.width, _MAX_WIDTH))
    if image is not None and console.color_system is not None:
        console.print(half_blocks(image, "#" if console.options.ascii_only else "▀"), no_wrap=True)


def half_blocks(image: Any, block: str = "▀") -> Text:
    """An image of uint8 as text. A character shows two rows: the upper in its foreground colour.

    Args:
        block: the character; an encoding without block characters needs another character.
    """
    height, width, _ = image.shape
    drawn = Text()
    for row in range(0, height, 2):
        for column in range(width):
            below = image[row + 1, column] if row + 1 < height else None
            style = Style(color=_colour(image[row, column]), bgcolor=_colour(below))
            drawn.append(block, style)
        drawn.append("\n")
    drawn.rstrip()
    return drawn


def _colour(pixel: Any) -> Color | None:
    if pixel is None:
        return None
    red, green, blue = (int(value) for value in (pixel if len(pixel) == 3 else [pixel[0]] * 3))
    return Color.from_rgb(red, green, blue)
