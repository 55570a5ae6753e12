"""The frame of a message for a tile: the selected view, and its bytes for the page."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np

from tensorbus._topics.preview import red_first
from tensorbus._view import pixels
from tensorbus._view.channel import Frame
from tensorbus._view.leaves import Leaves, is_array, leaves_of, text_of

NUMBERS = "(numbers)"
TEXT = "(text)"
_MAX_PLOTTED = 16  # elements of an array that is plotted over time, each as a series
_MAX_SERIES = 32
_MIN_POINTS = 32  # an array of shape (N, 3) with a smaller N is a matrix
_MAX_LINES = 64


def frame_of(message: Any, view: str = "") -> Frame:
    """The frame of a message.

    Args:
        message: the message.
        view: the path of an array, NUMBERS or TEXT. If the message does not have this view, its
            first view is shown.
    """
    leaves = leaves_of(message)
    kinds = {path: kind_of(value) for path, value in leaves.items()}
    views = [path for path, kind in kinds.items() if kind not in ("numbers", "text")]
    if "numbers" in kinds.values():
        views.append(NUMBERS)
    views.append(TEXT)
    chosen = view if view in views else views[0]
    if chosen == NUMBERS:
        frame = _numbers({path: leaves[path] for path in kinds if kinds[path] == "numbers"})
    elif chosen == TEXT:
        frame = _text(leaves)
    else:
        frame = _array(leaves, chosen, kinds[chosen])
    frame.header |= {"view": chosen, "views": views}
    return frame


def failure(error: Exception) -> Frame:
    """A frame that shows an error."""
    return Frame({"kind": "text", "view": TEXT, "views": [TEXT], "lines": [str(error)]})


def kind_of(value: Any) -> str:
    """The kind of view of a value: "image", "heat", "points", "curve", "numbers" or "text".

    >>> shapes = [(48, 64), (3, 48, 64), (48, 64, 4), (9, 8, 7, 6), (100, 3), (100,), (3,), ()]
    >>> [kind_of(np.zeros(shape, "float32")) for shape in shapes]
    ['heat', 'image', 'image', 'heat', 'points', 'curve', 'numbers', 'numbers']
    >>> kind_of(np.zeros((480, 640), "uint8")), kind_of(True), kind_of("text"), kind_of(np.zeros(0))
    ('image', 'numbers', 'text', 'text')
    """
    if isinstance(value, bool | int | float):
        return "numbers"
    if not is_array(value) or 0 in value.shape or not pixels.has_numbers(value.dtype):
        return "text"
    shape = value.shape
    if len(shape) <= 1:
        return "numbers" if value.size <= _MAX_PLOTTED else "curve"
    if len(shape) == 2:
        if shape[1] == 3 and shape[0] >= _MIN_POINTS and value.dtype.kind == "f":
            return "points"
        return "image" if value.dtype in (np.uint8, np.bool_) else "heat"
    return "image" if shape[-1] in pixels.CHANNELS or shape[-3] in pixels.CHANNELS else "heat"


def _array(leaves: Leaves, path: str, kind: str) -> Frame:
    array = leaves[path]
    header: dict[str, Any] = {"kind": kind, "dtype": str(array.dtype), "shape": array.shape}
    beside = path[: path.rfind(".") + 1]
    if kind == "points":
        return _points(header, array, leaves.get(f"{beside}colors"))
    if kind == "curve":
        values = pixels.curve(array)
        assert values is not None
        return Frame(header, values.astype(np.float32).tobytes())
    plain = array
    while plain.ndim > 3 or (plain.ndim == 3 and kind == "heat"):
        plain = plain[0]
    if plain.ndim < array.ndim:
        header["part"] = [0] * (array.ndim - plain.ndim)
    found = pixels.image(plain) if kind == "image" else pixels.heat(plain)
    assert found is not None
    rgba = found.rgba
    if kind == "image":
        rgba = red_first(rgba, leaves.get(f"{beside}encoding"))
    height, width, _ = rgba.shape
    header |= {"width": width, "height": height, "ratio": _ratio(plain.shape, kind)}
    header |= {"low": found.low, "high": found.high, "nonfinite_count": found.nonfinite_count}
    return Frame(header, rgba.tobytes())


def _ratio(shape: tuple[int, ...], kind: str) -> float:
    """The width divided by the height."""
    planes_first = len(shape) == 3 and shape[2] not in pixels.CHANNELS
    height, width = shape[1:] if planes_first else shape[:2]
    return width / height if kind == "image" else 4 / 3


def _points(header: dict[str, Any], array: Any, colours: Any) -> Frame:
    usable = is_array(colours) and colours.ndim == 2 and colours.shape[1] in pixels.CHANNELS
    found = pixels.cloud(array, colours if usable and len(colours) == len(array) else None)
    assert found is not None
    points, rgba = found
    return Frame(header | {"count": len(points)}, points.tobytes() + rgba.tobytes())


def _numbers(leaves: Leaves) -> Frame:
    """Numbers by name, for a plot over time."""
    series: dict[str, float] = {}
    for path, value in leaves.items():
        if not is_array(value) or value.ndim == 0:
            series[path] = _number(value)
            continue
        found = pixels.numbers(value)
        assert found is not None
        series |= {f"{path}[{index}]": float(number) for index, number in enumerate(found)}
    return Frame({"kind": "numbers", "series": dict(islice(series.items(), _MAX_SERIES))})


def _number(value: Any) -> float:
    """A Python number, or the element of an array without dimensions, as a float."""
    try:
        found = value if isinstance(value, int | float) else pixels.numbers(value)
        return math.nan if found is None else float(found)
    except OverflowError:
        return math.inf


def _text(leaves: Leaves) -> Frame:
    lines = [f"{path}: {text_of(value)}" for path, value in islice(leaves.items(), _MAX_LINES)]
    return Frame({"kind": "text", "lines": lines})
