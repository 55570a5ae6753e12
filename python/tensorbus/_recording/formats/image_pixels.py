"""Tensors as images of 8 bits."""

from __future__ import annotations

from typing import Any

from tensorbus._base.errors import Unsupported
from tensorbus._recording.message_parts import MessageParts
from tensorbus._topics.preview import red_first


def rgb_pixels(name: str, parts: MessageParts, channels: tuple[int, ...]) -> Any:
    """A tensor as an image of shape (height, width) or (height, width, channels), red first.

    Args:
        name: the tensor's name.
        parts: the message that contains it.
        channels: the numbers of channels that the format has.

    Raises:
        Unsupported: the tensor is no such image.
    """
    array = parts.tensors[name]
    shown = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    is_image = shown.ndim == 2 or (shown.ndim == 3 and shown.shape[2] in channels)
    if not is_image or array.dtype != "uint8":
        raise Unsupported(
            f"tensor {name!r}: {array.dtype} of {array.shape} is no image: expected uint8 of "
            f"(height, width) or (height, width, channels), with channels one of {channels}"
        )
    return red_first(shown, parts.encodings.get(name))
