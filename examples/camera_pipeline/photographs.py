"""Photographs that scikit-image ships, side by side, and a window that moves over them."""

import math

import numpy as np
from PIL import Image
from skimage import data

from plan import FRAME_SHAPE

_HEIGHT = 1400  # of the panorama: what is more than a frame's is room to move up and down
_STEP = 24  # pixels that the window moves to the right from frame to frame


class Photographs:
    """Frame `index` is the same in every process, and no two in a row are alike.

    >>> frame = np.empty(FRAME_SHAPE, np.uint8)
    >>> Photographs().write(0, frame)
    """

    def __init__(self) -> None:
        photographs = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket()]
        row = np.concatenate([_scaled(photograph) for photograph in photographs], axis=1)
        self._period = row.shape[1]
        self._panorama = np.concatenate([row, row[:, : FRAME_SHAPE[1]]], axis=1)

    def write(self, index: int, frame: np.ndarray) -> None:
        """Writes frame `index`, as a camera would, into (1080, 1920, 3) bytes."""
        height, width, _ = FRAME_SHAPE
        left = index * _STEP % self._period
        top = round((_HEIGHT - height) * (0.5 + 0.5 * math.sin(index / 10)))
        np.copyto(frame, self._panorama[top : top + height, left : left + width])


def _scaled(photograph: np.ndarray) -> np.ndarray:
    height, width, _ = photograph.shape
    size = (width * _HEIGHT // height, _HEIGHT)
    return np.asarray(Image.fromarray(photograph).resize(size, Image.Resampling.BICUBIC))
