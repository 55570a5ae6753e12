"""Point clouds of ROS."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorbus.messages import PointCloudMessage

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}


def point_cloud_message(cloud: Any) -> PointCloudMessage | None:
    """A `sensor_msgs/PointCloud2`; None if it has no x, y, z, or its data does not fit.

    Fields other than x, y, z, `rgb`, `rgba`, `intensity` and `normal_x` to `normal_z` are left out.
    """
    points = _points_in(cloud)
    if points is None or not {"x", "y", "z"} <= {*points.dtype.names}:
        return None
    names = points.dtype.names
    packed = next((name for name in ("rgb", "rgba") if name in names), None)
    normals = ("normal_x", "normal_y", "normal_z")
    return PointCloudMessage(
        _columns(points, ("x", "y", "z")),
        None if packed is None else _colours(points[packed]),
        _native(points["intensity"]) if "intensity" in names else None,
        _columns(points, normals) if {*normals} <= {*names} else None,
        cloud.header.frame_id,
    )


def _points_in(cloud: Any) -> np.ndarray[Any, Any] | None:
    """The points as a structured array; None if the fields or the data do not fit."""
    order = ">" if cloud.is_bigendian else "<"
    line = cloud.width * cloud.point_step
    if cloud.row_step < line or cloud.data.size < cloud.row_step * cloud.height:
        return None
    try:
        dtype = np.dtype(
            {
                "names": [field.name for field in cloud.fields],
                "formats": [
                    (f"{order}{_TYPES[field.datatype]}", (field.count,) if field.count > 1 else ())
                    for field in cloud.fields
                ],
                "offsets": [field.offset for field in cloud.fields],
                "itemsize": cloud.point_step,
            }
        )
        lines = cloud.data[: cloud.row_step * cloud.height].reshape(cloud.height, cloud.row_step)
        return np.ascontiguousarray(lines[:, :line]).reshape(-1).view(dtype)
    except (ValueError, KeyError, TypeError):
        return None


def _native(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of a field in this machine's byte order, without gaps."""
    return np.ascontiguousarray(column.astype(column.dtype.newbyteorder("=")))


def _columns(points: np.ndarray[Any, Any], names: tuple[str, ...]) -> np.ndarray[Any, Any]:
    return np.stack([_native(points[name]) for name in names], axis=1)


def _colours(packed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """The colours (N, 3) in a field that has 0xRRGGBB as an integer, or as a float's bits."""
    if packed.dtype.itemsize != 4 or packed.ndim != 1:
        return None
    bits = _native(packed).view(np.uint32)
    return np.stack([(bits >> shift & 0xFF).astype(np.uint8) for shift in (16, 8, 0)], axis=1)
