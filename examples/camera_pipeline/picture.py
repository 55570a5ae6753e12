"""A picture of what went through: frames as the model got them, features as the sink got them."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

_COLUMN, _GAP, _TEXT = 640, 16, 22
_GRID = (3, 4)  # rows and columns of feature channels below a frame
_COLOURS = np.array(  # five of matplotlib's "viridis"
    [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], np.float32
)


def draw(frames: dict[int, np.ndarray], features: dict[int, np.ndarray]) -> Image.Image:
    """One column for each index: (360, 640, 3) uint8, and below it channels of (64, 17, 30)."""
    channels = _liveliest(list(features.values()))
    top = 2 * _GAP + _TEXT
    below = top + 360 + 2 * _GAP + _TEXT
    width = len(frames) * (_COLUMN + _GAP) + _GAP
    picture = Image.new("RGB", (width, below + _GRID[0] * 100 + _GAP), "white")
    pen = ImageDraw.Draw(picture)
    font = ImageFont.load_default(_TEXT - 2)
    for column, (index, frame) in enumerate(frames.items()):
        left = _GAP + column * (_COLUMN + _GAP)
        pen.text((left, _GAP), f"frame {index}, as the PyTorch model got it", "black", font)
        picture.paste(Image.fromarray(frame), (left, top))
        text = f"{len(channels)} of its {len(features[index])} features, as the C++ sink got them"
        pen.text((left, below - _GAP - _TEXT), text, "black", font)
        for place, channel in enumerate(channels):
            row, cell = divmod(place, _GRID[1])
            tile = _heat_map(features[index][channel])
            picture.paste(tile, (left + cell * (_COLUMN + 8) // _GRID[1], below + row * 100))
    return picture


def _liveliest(features: Sequence[np.ndarray]) -> list[int]:
    """The channels that vary most; some are zero everywhere."""
    variation = np.stack(features).std(axis=(2, 3)).mean(axis=0)
    return sorted(np.argsort(variation)[-_GRID[0] * _GRID[1] :].tolist())


def _heat_map(channel: np.ndarray) -> Image.Image:
    low, high = channel.min(), channel.max()
    level = (channel - low) / max(high - low, 1e-12)
    steps = np.linspace(0, 1, len(_COLOURS))
    colours = [np.interp(level, steps, _COLOURS[:, i]) for i in range(3)]
    image = Image.fromarray(np.stack(colours, axis=-1).astype(np.uint8))
    return image.resize((_COLUMN // _GRID[1] - 8, 92), Image.Resampling.NEAREST)
