"""The parts of a message for which other viewers have types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorbus._topics.preview import blue_first
from tensorbus._topics.sample import Header
from tensorbus._view import pixels
from tensorbus._view.frames import kind_of
from tensorbus._view.leaves import Leaves, is_array, leaves_of, text_of
from tensorbus.messages._registry import with_fingerprint
from tensorbus.messages._standard import PoseMessage, TransformMessage

_WHOLE = ("data", "points")  # fields that are shown under the name of their message
# Fields beside the pixels of an image and the points of a cloud that are shown with them.
_WITH_IMAGE = ("encoding", "width", "height")
_WITH_POINTS = ("colors", "intensity", "normals", "frame_id")


@dataclass(frozen=True)
class Image:
    """An image: uint8 of shape (height, width) or (height, width, channels), 1, 3 or 4 channels."""

    pixels: Any
    blue_first: bool


@dataclass(frozen=True)
class Points:
    """Points: positions are float32 of shape (N, 3), colours uint8 of shape (N, 3) or None."""

    positions: Any
    colours: Any
    frame: str


@dataclass(frozen=True)
class Pose:
    """The pose of the frame `child` in `frame`: position (3,), orientation x, y, z, w (4,)."""

    position: Any
    orientation: Any
    frame: str
    child: str


@dataclass(frozen=True)
class Parts:
    """The parts of a message by name; "": the message itself."""

    images: dict[str, Image] = field(default_factory=dict)
    points: dict[str, Points] = field(default_factory=dict)
    poses: dict[str, Pose] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def parts_of(message: Any, header: Header) -> Parts:
    """The parts of a message: by type for the standard messages, else by shape and dtype.

    Args:
        message: a received message with NumPy arrays.
        header: the message's header; its fingerprint identifies the type, if there is one.
    """
    found = Parts()
    leaves = leaves_of(message)
    cls = (
        type(message) if not isinstance(message, Mapping) else with_fingerprint(header.fingerprint)
    )
    if (pose := _pose(cls, leaves)) is not None:
        found.poses[""] = pose
        return found
    shown = _shown_with_others(leaves)
    for path, value in leaves.items():
        if path not in shown:
            _add(found, leaves, path, value)
    return found


def _shown_with_others(leaves: Leaves) -> set[str]:
    """The paths of values that are shown with an image or a cloud."""
    with_kind = {"image": _WITH_IMAGE, "points": _WITH_POINTS}
    found = set()
    for path, value in leaves.items():
        beside = path[: path.rfind(".") + 1]
        if path.removeprefix(beside) in _WHOLE:
            found |= {f"{beside}{other}" for other in with_kind.get(kind_of(value), ())}
    return found


def _pose(cls: type[Any] | None, leaves: Leaves) -> Pose | None:
    frames = str(leaves.get("frame_id", "")), str(leaves.get("child_frame_id", ""))
    if cls is PoseMessage:
        return Pose(_floats(leaves["position"]), _floats(leaves["orientation"]), *frames)
    if cls is TransformMessage:
        matrix = _floats(leaves["matrix"])
        return Pose(matrix[:3, 3], quaternion(matrix[:3, :3]), *frames)
    return None


def _add(found: Parts, leaves: Leaves, path: str, value: Any) -> None:
    name = "" if path in _WHOLE else path.replace(".", "/")
    kind = kind_of(value)
    beside = path[: path.rfind(".") + 1]
    if kind == "image" and value.ndim <= 3:
        encoding = leaves.get(f"{beside}encoding")
        found.images[name] = Image(_bytes_of(value), blue_first(encoding))
    elif kind == "points":
        colours = leaves.get(f"{beside}colors")
        frame = str(leaves.get(f"{beside}frame_id", ""))
        fit = colours is not None and is_array(colours) and colours.shape == value.shape
        shown = _bytes_of(colours) if fit else None
        found.points[name] = Points(value.astype(np.float32), shown, frame)
    elif kind in ("heat", "curve", "image"):
        found.tensors[name] = _floats(value).astype(np.float32)
    elif kind == "text":
        found.texts[name] = value if isinstance(value, str) else text_of(value)
    elif is_array(value) and value.ndim:
        numbers = enumerate(_floats(value))
        found.numbers.update({f"{name}[{index}]": float(number) for index, number in numbers})
    else:
        found.numbers[name] = float(value if isinstance(value, int | float) else _floats(value))


def _floats(value: Any) -> Any:
    found = pixels.numbers(value)
    return np.zeros(0) if found is None else found


def _bytes_of(array: Any) -> Any:
    """The array as uint8 with the channels last; values from 0 to 1 become 0 to 255."""
    array = np.asarray(array)
    if array.ndim == 3 and array.shape[2] not in pixels.CHANNELS:
        array = np.moveaxis(array, 0, 2)
    if array.dtype != np.uint8:
        values = np.nan_to_num(_floats(array))
        unit = array.dtype == np.bool_ or values.size == 0 or values.max() <= 1
        array = (values * (255 if unit else 1)).clip(0, 255).astype(np.uint8)
    return np.ascontiguousarray(array)


def quaternion(rotation: Any) -> Any:
    """The quaternion x, y, z, w of a rotation matrix.

    It is an eigenvector: Bar-Itzhack, "New Method for Extracting the Quaternion from a Rotation
    Matrix" (2000).

    >>> quaternion(np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])).round(3).tolist()
    [0.0, 0.0, 0.707, 0.707]
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation
    symmetric = np.array(
        [
            [xx - yy - zz, yx + xy, zx + xz, zy - yz],
            [yx + xy, yy - xx - zz, zy + yz, xz - zx],
            [zx + xz, zy + yz, zz - xx - yy, yx - xy],
            [zy - yz, xz - zx, yx - xy, xx + yy + zz],
        ]
    )
    found = np.linalg.eigh(symmetric)[1][:, -1]
    return found if found[3] >= 0 else -found
