"""Messages of ROS as messages of Tensorbus.

docs/recording.md, section "ROS bags", has the table of types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tensorbus._recording.ros.images import image_message
from tensorbus._recording.ros.point_clouds import point_cloud_message
from tensorbus.messages import (
    ArrayMessage,
    FloatMessage,
    HeaderMessage,
    IntMessage,
    PoseMessage,
    StringMessage,
    TimestampMessage,
    TransformMessage,
)


def converted(message: Any) -> Any:
    """A message of the `rosbags` package as a typed message, or as a dict of its fields."""
    convert = _CONVERTERS.get(message.__msgtype__)
    found = None if convert is None else convert(message)
    return plain_message(message) if found is None else found


def plain_message(value: Any) -> Any:
    """A message as a dict of its fields, and messages in it likewise. Arrays stay arrays."""
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.name != "__msgtype__"]
        return {name: plain_message(getattr(value, name)) for name in names}
    if isinstance(value, list):
        return [plain_message(item) for item in value]
    return value


def stamp_ns(message: Any) -> int:
    """The stamp in a message's header, in nanoseconds since 1970; 0: it has none."""
    stamp = getattr(getattr(message, "header", None), "stamp", None)
    if stamp is None:
        return 0
    return max(int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec), 0)


def _pose(pose: Any, frame: str = "") -> PoseMessage:
    at, turn = pose.position, pose.orientation
    return PoseMessage(
        np.array([at.x, at.y, at.z]), np.array([turn.x, turn.y, turn.z, turn.w]), frame
    )


def _transform(transform: Any, frame: str = "", child: str = "") -> TransformMessage:
    at, turn = transform.translation, transform.rotation
    matrix = np.eye(4)
    matrix[:3, :3] = rotation(np.array([turn.x, turn.y, turn.z, turn.w]))
    matrix[:3, 3] = at.x, at.y, at.z
    return TransformMessage(matrix, frame, child)


def rotation(quaternion: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The matrix of a quaternion x, y, z, w, which need not be of length 1.

    >>> rotation(np.array([0, 0, 1.0, 1.0])).round(9).tolist()
    [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    length = float(np.linalg.norm(quaternion))
    if length == 0:  # ROS sends it for a rotation that was not set
        return np.eye(3)
    x, y, z, w = quaternion / length
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + 2 * w * cross + 2 * cross @ cross)


def _header(header: Any) -> HeaderMessage:
    stamp, sequence = header.stamp, getattr(header, "seq", 0)
    return HeaderMessage(stamp.sec, stamp.nanosec, header.frame_id, sequence)


def _array(message: Any) -> ArrayMessage:
    """The array in the shape of its layout; flat if they do not fit."""
    data, layout = np.asarray(message.data), message.layout
    shape = [int(dim.size) for dim in layout.dim]
    if layout.data_offset == 0 and shape and int(np.prod(shape)) == data.size:
        data = data.reshape(shape)
    return ArrayMessage(data)


_INTS = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
_FLOATS = ["Float32", "Float64"]
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "sensor_msgs/msg/Image": image_message,
    "sensor_msgs/msg/PointCloud2": point_cloud_message,
    "geometry_msgs/msg/Pose": _pose,
    "geometry_msgs/msg/PoseStamped": lambda it: _pose(it.pose, it.header.frame_id),
    "geometry_msgs/msg/Transform": _transform,
    "geometry_msgs/msg/TransformStamped": lambda it: _transform(
        it.transform, it.header.frame_id, it.child_frame_id
    ),
    "std_msgs/msg/String": lambda it: StringMessage(it.data),
    "std_msgs/msg/Header": _header,
    "builtin_interfaces/msg/Time": lambda it: TimestampMessage(it.sec, it.nanosec),
    **{f"std_msgs/msg/{name}": lambda it: IntMessage(it.data) for name in _INTS},
    **{f"std_msgs/msg/{name}": lambda it: FloatMessage(it.data) for name in _FLOATS},
    **{f"std_msgs/msg/{name}MultiArray": _array for name in [*_INTS, *_FLOATS]},
}
