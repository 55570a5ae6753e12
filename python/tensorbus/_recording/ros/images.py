"""Images of ROS."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tensorbus.messages import ImageMessage

_CHANNELS = {"mono": 1, "rgb": 3, "bgr": 3, "rgba": 4, "bgra": 4}
_NAMED = re.compile(r"(mono|rgba?|bgra?)(8|16)|bayer_[rgb]{4}(8|16)")
_TYPED = re.compile(r"(8|16|32|64)([USF])C(\d+)")  # as OpenCV writes them, for example 32FC1
_KINDS = {"U": "u", "S": "i", "F": "f"}


def layout_of(encoding: str) -> tuple[str, int] | None:
    """The dtype of an encoding, and its number of channels; None for an unknown one.

    >>> layout_of("bgr8"), layout_of("16UC1"), layout_of("bayer_rggb16"), layout_of("yuv422")
    (('u1', 3), ('u2', 1), ('u2', 1), None)
    """
    if found := _NAMED.fullmatch(encoding):
        name, bits, bayer_bits = found.groups()
        return f"u{int(bits or bayer_bits) // 8}", _CHANNELS.get(name or "mono", 1)
    if found := _TYPED.fullmatch(encoding):
        bits, kind, channels = found.groups()
        if (kind == "F") == (int(bits) >= 32) or (kind, bits) == ("S", "32"):
            return f"{_KINDS[kind]}{int(bits) // 8}", int(channels)
    return None


def image_message(image: Any) -> ImageMessage | None:
    """A `sensor_msgs/Image`; None if its encoding is unknown, or its data does not fit.

    Its pixels have the shape (height, width), or (height, width, channels), and this machine's byte
    order.
    """
    layout = layout_of(image.encoding)
    if layout is None:
        return None
    dtype, channels = np.dtype(layout[0]), layout[1]
    line = image.width * channels * dtype.itemsize
    if image.step < line or image.data.size < image.step * image.height or channels == 0:
        return None
    lines = image.data[: image.step * image.height].reshape(image.height, image.step)
    sent = dtype.newbyteorder(">" if image.is_bigendian else "<")
    raw = np.ascontiguousarray(lines[:, :line]).view(sent)
    shape = (image.height, image.width, channels)[: 2 if channels == 1 else 3]
    pixels = raw.astype(dtype, copy=False).reshape(shape)
    return ImageMessage(pixels, image.encoding, image.width, image.height)
