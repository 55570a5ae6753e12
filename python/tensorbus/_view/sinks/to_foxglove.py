"""Messages for Foxglove (https://foxglove.dev)."""

from __future__ import annotations

from typing import Any

import foxglove
import numpy as np
from foxglove import channels, messages

from tensorbus._base.errors import Unsupported
from tensorbus._base.text import json_text
from tensorbus._topics.preview import red_first
from tensorbus._topics.sample import Header
from tensorbus._view.leaves import text_of
from tensorbus._view.sinks.parts import Image, Parts, Points, Pose

_PORT = 8765  # the app's default
_FLOAT = messages.PackedElementFieldNumericType.Float32
_BYTE = messages.PackedElementFieldNumericType.Uint8


class FoxgloveSink:
    """Serves Foxglove's app on 127.0.0.1, or writes a file.

    Args:
        file: an `.mcap` file to write; "": run the server.
        port: the server's port; 0: the app's default.
    """

    def __init__(self, file: str, port: int = 0) -> None:
        self._context = foxglove.Context()
        self._file = file
        self._channels: dict[str, Any] = {}
        self._out: Any
        if file:
            self._out = foxglove.open_mcap(file, context=self._context, allow_overwrite=True)
        else:
            self._out = foxglove.start_server(
                name="tensorbus", host="127.0.0.1", port=port or _PORT, context=self._context
            )

    def send(self, topic: str, header: Header, parts: Parts) -> None:
        """Sends a message with its publisher's time.

        Raises:
            Unsupported: earlier messages of the topic were of another kind.
        """
        stamp = messages.Timestamp(*divmod(header.timestamp_ns, 1_000_000_000))
        for name, image in parts.images.items():
            found = _image(image, stamp)
            self._log(topic, name, channels.RawImageChannel, found, header)
        for name, points in parts.points.items():
            cloud = _cloud(points, stamp)
            self._log(topic, name, channels.PointCloudChannel, cloud, header)
        for name, pose in parts.poses.items():
            transform = _transform(pose, stamp)
            self._log(topic, name, channels.FrameTransformChannel, transform, header)
        rest = {**parts.numbers, **parts.texts}
        rest |= {name: text_of(tensor) for name, tensor in parts.tensors.items()}
        if rest:
            values = {name or "data": value for name, value in rest.items()}
            alone = not (parts.images or parts.points or parts.poses)
            self._log(topic, "" if alone else "values", foxglove.Channel, json_text(values), header)

    def close(self) -> None:
        """Completes the file, or ends the server.

        Raises:
            OSError: the file could not be written completely, for example on a full disk.
        """
        if hasattr(self._out, "stop"):
            self._out.stop()
            return
        try:
            self._out.close()
        except RuntimeError as error:
            raise OSError(f"file {self._file!r} could not be written completely: {error}") from None

    def _log(self, topic: str, name: str, kind: Any, message: Any, header: Header) -> None:
        path = f"/{topic.lstrip('/')}" + (f"/{name}" if name else "")
        channel = self._channels.get(path)
        if channel is None:
            channel = self._channels[path] = kind(path, context=self._context)
        if not isinstance(channel, kind):
            raise Unsupported(f"Foxglove's topic {path!r} has messages of another kind already")
        channel.log(message, log_time=header.timestamp_ns)


def _image(image: Image, stamp: Any) -> Any:
    height, width = image.pixels.shape[:2]
    count = image.pixels.shape[2] if image.pixels.ndim == 3 else 1
    pixels = red_first(image.pixels, "bgr8") if image.blue_first else image.pixels
    return messages.RawImage(
        timestamp=stamp,
        width=width,
        height=height,
        encoding={1: "mono8", 3: "rgb8", 4: "rgba8"}[count],
        step=width * count,
        data=pixels.tobytes(),
    )


def _cloud(points: Points, stamp: Any) -> Any:
    names = [("x", _FLOAT, 0), ("y", _FLOAT, 4), ("z", _FLOAT, 8)]
    names += [("red", _BYTE, 12), ("green", _BYTE, 13), ("blue", _BYTE, 14), ("alpha", _BYTE, 15)]
    packed = np.zeros(len(points.positions), [("position", "<f4", 3), ("colour", "u1", 4)])
    packed["position"] = points.positions
    packed["colour"] = 255
    if points.colours is not None:
        packed["colour"][:, :3] = points.colours
    return messages.PointCloud(
        timestamp=stamp,
        frame_id=points.frame,
        point_stride=packed.itemsize,
        fields=[
            messages.PackedElementField(name=name, type=kind, offset=offset)
            for name, kind, offset in names
        ],
        data=packed.tobytes(),
    )


def _transform(pose: Pose, stamp: Any) -> Any:
    x, y, z = map(float, pose.position)
    turn = dict(zip("xyzw", map(float, pose.orientation), strict=True))
    return messages.FrameTransform(
        timestamp=stamp,
        parent_frame_id=pose.frame,
        child_frame_id=pose.child,
        translation=messages.Vector3(x=x, y=y, z=z),
        rotation=messages.Quaternion(**turn),
    )
