"""The notebook view of a sample: images as thumbnails, dicts as tables."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence, Sized
from itertools import islice
from reprlib import repr as short
from typing import Any

from tensorbus._base.errors import Error
from tensorbus._base.html import ROWS, Html, grid, table
from tensorbus._tensors import numpy_arrays

_SIDE = 160  # maximum width and height of a thumbnail, in pixels
_SMALL_SIDE = 64  # the same, of a thumbnail in a list of samples
_COLUMNS = 8  # maximum fields of the messages in a list of samples
_HOST = 1  # DLPack's number for main memory


def preview(title: str, read: Any) -> Html:
    """A table of a message's fields; one row if the message is a single value.

    Args:
        title: the heading of the table.
        read: returns the message.
    """
    try:
        data = read()
    except Error as error:
        return table(title, {"error": error})
    fields = fields_of(data)
    if fields is None:
        return table(title, {"data": _cell(data)})
    encoding = fields.get("encoding")
    rows: dict[str, object] = {
        str(name): _cell(value, encoding) for name, value in islice(fields.items(), ROWS)
    }
    if len(fields) > ROWS:
        rows["..."] = f"{len(fields) - ROWS} more"
    return table(title, rows)


def preview_list(
    title: str, samples: Sequence[Any], when: str, time_of: Callable[[Any], str]
) -> Html:
    """A table of samples, with a column for each field of their messages.

    Args:
        title: the heading of the table.
        samples: the samples; the first 20 are shown.
        when: the name of the column of times.
        time_of: the text of a sample's time.
    """
    found = [_read(samples, index, time_of) for index in range(min(len(samples), ROWS))]
    names = [*dict.fromkeys(name for _, message in found for name in message)][:_COLUMNS]
    rows = ((*head, *(_cell_of(message, name) for name in names)) for head, message in found)
    return grid(title, ("topic", "sequence", when, *map(str, names)), rows, len(samples))


def _read(
    samples: Sequence[Any], index: int, time_of: Callable[[Any], str]
) -> tuple[tuple[object, ...], Mapping[Any, Any]]:
    """The first three cells of a sample's row, and its fields; or the error."""
    head: tuple[object, ...] = ("", "", "")
    try:
        sample = samples[index]
        head = (sample.header.topic, sample.header.sequence, time_of(sample))
        data = sample.data
    except Error as error:
        return head, {"error": error}
    fields = fields_of(data)
    return head, {"data": data} if fields is None else fields


def _cell_of(message: Mapping[Any, Any], name: Any) -> str:
    if name not in message:
        return ""
    value = message[name]
    if isinstance(value, Error):
        return str(value)
    return _cell(value, message.get("encoding"), _SMALL_SIDE)


def fields_of(data: Any) -> Mapping[Any, Any] | None:
    """The fields of a message, or the items of a dict, by name; None for anything else."""
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
    return data if isinstance(data, Mapping) else None


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor or array, of any library."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def blue_first(encoding: object) -> bool:
    """Whether the first channel of an image with this `encoding` is blue, as in OpenCV's images.

    >>> [blue_first(encoding) for encoding in ("bgr8", "bgra8", "BGR16", "rgb8", "mono8", None)]
    [True, True, True, False, False, False]
    """
    return isinstance(encoding, str) and encoding.lower().startswith("bgr")


def red_first(image: Any, encoding: object) -> Any:
    """An image of shape (height, width, channels), its channels in the order red, green, blue.

    >>> import numpy as np
    >>> red_first(np.array([[[1, 2, 3, 4]]]), "bgra8"), red_first(np.array([[[7]]]), "bgr8")
    (array([[[3, 2, 1, 4]]]), array([[[7]]]))
    """
    if image.ndim < 3 or image.shape[-1] not in (3, 4) or not blue_first(encoding):
        return image
    return image[..., [2, 1, 0, 3][: image.shape[-1]]]


def _cell(value: Any, encoding: object = None, side: int = _SIDE) -> str:
    """The content of one cell. Elements of a tensor on a GPU are not read.

    Args:
        value: the value.
        encoding: the encoding of images, which is another field of their message.
        side: see `thumbnail`.
    """
    if is_tensor(value):
        text = f"{value.dtype} {tuple(value.shape)}"
        png = thumbnail(value, encoding, side)
        if png is None:
            return text
        image = f'<img src="data:image/png;base64,{b64encode(png).decode()}">'
        return Html(f"{text}<br>{image}")
    if isinstance(value, str | bytes | int | float | complex | None):
        return short(value)
    name = type(value).__name__
    return f"{name} of {len(value)}" if isinstance(value, Sized) else name


def thumbnail(tensor: Any, encoding: object = None, side: int = _SIDE) -> bytes | None:
    """A PNG of at most `side` x `side` pixels, if the tensor is an image in main memory.

    An image has shape (height, width, 3) or (height, width, 1), and elements of uint8, or floats
    from 0 to 1. `encoding` is the order of its channels, for example "bgr8"; by default "rgb8".

    >>> import numpy as np
    >>> thumbnail(np.zeros((480, 640, 3), np.uint8))[:4], thumbnail(np.zeros(3))
    (b'\\x89PNG', None)
    """
    image = pixels(tensor, side, encoding)
    return None if image is None else _png(image)


def pixels(tensor: Any, side: int, encoding: object = None) -> Any:
    """An image as a uint8 array of shape (height, width, 1 or 3), each size at most `side`.

    Its channels are red, green and blue, or gray.

    None if the tensor is not an image in main memory, see `thumbnail`.
    """
    shape = tuple(tensor.shape)
    if len(shape) != 3 or shape[2] not in (1, 3) or 0 in shape:
        return None
    try:
        np = numpy_arrays.learn()
        if tensor.__dlpack_device__()[0] != _HOST:
            return None
        plain = tensor.detach() if hasattr(tensor, "detach") else tensor
        step = -(-max(shape[:2]) // side)
        image = np.asarray(plain[::step, ::step])
    except (Error, AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return None  # a dtype or layout that NumPy lacks
    if image.dtype.kind == "f":
        if not (image.min() >= 0 and image.max() <= 1):
            return None
        image = (image * 255).astype(np.uint8)
    return red_first(image, encoding) if image.dtype == np.uint8 else None


def _png(image: Any) -> bytes:
    height, width, channels = image.shape
    colour = 2 if channels == 3 else 0
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in image)  # 0: a line without a filter
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
