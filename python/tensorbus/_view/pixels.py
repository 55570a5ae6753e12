"""Arrays as pixels and points of a tile. Limits apply to arrays of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bytes = NDArray[np.uint8]

SIDE = 480
"""Limit of a tile's pixels in each direction."""
MAX_POINTS = 20_000
MAX_VALUES = 480
CHANNELS = (1, 3, 4)

# Colours of matplotlib's viridis (public domain, CC0) at equal intervals.
_COLOURS = np.array(
    [
        (68, 1, 84),
        (72, 40, 120),
        (62, 74, 137),
        (49, 104, 142),
        (38, 130, 142),
        (31, 158, 137),
        (53, 183, 121),
        (109, 205, 89),
        (180, 222, 44),
        (253, 231, 37),
    ],
    float,
)
_STOPS = np.linspace(0, 255, len(_COLOURS))
_MAP = np.stack(
    [np.interp(np.arange(256), _STOPS, _COLOURS[:, channel]) for channel in range(3)], axis=1
).astype(np.uint8)


@dataclass(frozen=True)
class Pixels:
    """An image for a canvas."""

    rgba: Bytes
    """(height, width, 4); transparent where the value is not finite."""
    low: float | None
    """The minimum of the finite values shown; None: there are none."""
    high: float | None
    """The maximum of the finite values shown; None: there are none."""
    nonfinite_count: int
    """How many of the values shown are not finite."""


def numbers(array: Any) -> Floats | None:
    """Numbers of any dtype as float64, and of complex dtypes the magnitude; None for other dtypes.

    >>> numbers(np.array([True, False])), numbers(np.array([3 + 4j])), numbers(np.array(["a"]))
    (array([1., 0.]), array([5.]), None)
    """
    found = np.asarray(array)
    if not has_numbers(found.dtype):
        return None
    with np.errstate(all="ignore"):
        if found.dtype.kind == "c":
            found = np.abs(found)
        elif found.dtype.kind in "mM":
            found = found.astype(np.int64)
        return found.astype(np.float64)


def has_numbers(dtype: np.dtype[Any]) -> bool:
    """True for dtypes of numbers. Dtypes of ml_dtypes (bfloat16, ...) have the kind "V" (void)."""
    return dtype.kind in "biufcmM" or (dtype.kind == "V" and dtype.type is not np.void)


def thinned(array: Any, axes: tuple[int, int]) -> Any:
    """A view of every n-th row and column, with at most SIDE elements on both axes."""
    index: list[Any] = [slice(None)] * array.ndim
    for axis in axes:
        index[axis] = slice(None, None, max(1, -(-array.shape[axis] // SIDE)))
    return array[tuple(index)]


def image(array: Any) -> Pixels | None:
    """An image of shape (H, W), (H, W, C) or (C, H, W), where C is 1, 3 or 4.

    Integers of 8 bits, and values between 0 and 1, keep their brightness; other values are scaled
    from their minimum to their maximum.
    """
    array = np.asarray(array)
    if array.ndim == 3 and array.shape[2] not in CHANNELS:
        array = np.moveaxis(array, 0, 2)
    return _coloured(thinned(array, (0, 1)))


def _coloured(array: Any) -> Pixels | None:
    """The image of an array of shape (H, W) or (H, W, C), with all its pixels."""
    values = numbers(array)
    if values is None:
        return None
    if values.ndim == 2:
        values = values[:, :, None]
    low, high, finite = _range(values)
    from_value, to_value = _brightness(array.dtype, low, high)
    scaled = _scaled(values, from_value, to_value)
    rgba = np.full((*values.shape[:2], 4), 255, np.uint8)
    rgba[:, :, :3] = scaled[:, :, :3]
    if values.shape[2] == 4:
        rgba[:, :, 3] = scaled[:, :, 3]
    rgba[~finite.all(axis=2)] = 0
    return Pixels(rgba, low, high, int(finite.size - finite.sum()))


def heat(array: Any) -> Pixels | None:
    """A heat map of an array of shape (H, W), from dark (minimum) to yellow (maximum)."""
    values = numbers(thinned(np.asarray(array), (0, 1)))
    if values is None:
        return None
    low, high, finite = _range(values)
    rgba = np.full((*values.shape, 4), 255, np.uint8)
    rgba[:, :, :3] = _MAP[_scaled(values, low or 0.0, high or 0.0)]
    rgba[~finite] = 0
    return Pixels(rgba, low, high, int(finite.size - finite.sum()))


def curve(array: Any) -> Floats | None:
    """At most MAX_VALUES values of an array with one dimension."""
    return numbers(np.asarray(array)[:: max(1, -(-len(array) // MAX_VALUES))])


def cloud(points: Any, colours: Any = None) -> tuple[NDArray[np.float32], Bytes] | None:
    """At most MAX_POINTS points of shape (N, 3), with a colour for each.

    Args:
        points: of shape (N, 3); points that are not finite are left out.
        colours: of shape (N, 3), from 0 to 255 or from 0 to 1; None: coloured by height.
    """
    step = max(1, -(-len(points) // MAX_POINTS))
    found = numbers(np.asarray(points)[::step])
    if found is None:
        return None
    finite = np.isfinite(found).all(axis=1)
    found = found[finite]
    rgba = np.full((len(found), 4), 255, np.uint8)
    given = None if colours is None else _coloured(np.asarray(colours)[::step][None])
    if given is not None:
        rgba[:, :3] = given.rgba[0, finite, :3]
    elif len(found):
        height = found[:, 2]
        rgba[:, :3] = _MAP[_scaled(height, float(height.min()), float(height.max()))]
    with np.errstate(over="ignore"):
        return found.astype(np.float32), rgba


def _range(values: Floats) -> tuple[float | None, float | None, Any]:
    finite = np.isfinite(values)
    if not finite.any():
        return None, None, finite
    known = values[finite]
    return float(known.min()), float(known.max()), finite


def _brightness(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    """The values that are shown as black and white."""
    if low is None or high is None:
        return 0.0, 1.0
    if dtype == np.uint8:
        return 0.0, 255.0
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return low, high


def _scaled(values: Floats, low: float, high: float) -> Bytes:
    """Values scaled to 0 to 255. They are halved first: the difference of two could be infinite."""
    with np.errstate(all="ignore"):
        span = high / 2 - low / 2
        part = (values / 2 - low / 2) / span if span > 0 else np.zeros_like(values)
    return (np.nan_to_num(part).clip(0, 1) * 255).astype(np.uint8)
