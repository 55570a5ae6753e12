"""Messages for the Rerun Viewer (https://rerun.io)."""

from __future__ import annotations

from typing import Any

import numpy as np
import rerun as rr

from tensorbus._topics.sample import Header
from tensorbus._view.sinks.parts import Image, Parts


class RerunSink:
    """Logs to a viewer that it starts, or to a file.

    Args:
        file: an `.rrd` file to write; "": start a viewer.
    """

    def __init__(self, file: str) -> None:
        self._stream = rr.RecordingStream("tensorbus")
        if file:
            self._stream.save(file)
        else:
            self._stream.spawn()

    def send(self, topic: str, header: Header, parts: Parts) -> None:
        """Logs a message with its publisher's time."""
        self._stream.set_time("publish", timestamp=np.datetime64(header.timestamp_ns, "ns"))
        for name, image in parts.images.items():
            self._log(topic, name, rr.Image(image.pixels, color_model=_colour_model(image)))
        for name, points in parts.points.items():
            self._log(topic, name, rr.Points3D(points.positions, colors=points.colours))
        for name, pose in parts.poses.items():
            rotation = rr.Quaternion(xyzw=pose.orientation)
            self._log(topic, name, rr.Transform3D(translation=pose.position, quaternion=rotation))
        for name, tensor in parts.tensors.items():
            self._log(topic, name, rr.Tensor(tensor))
        for name, number in parts.numbers.items():
            self._log(topic, name, rr.Scalars(number))
        for name, text in parts.texts.items():
            self._log(topic, name, rr.TextLog(text))

    def close(self) -> None:
        """Writes all buffered messages, and disconnects."""
        self._stream.flush()
        self._stream.disconnect()

    def _log(self, topic: str, name: str, entity: Any) -> None:
        path: list[object] = [part for part in (*topic.split("/"), *name.split("/")) if part]
        self._stream.log(path, entity)  # the parts of a list are escaped


def _colour_model(image: Image) -> Any:
    channels = image.pixels.shape[2] if image.pixels.ndim == 3 else 1
    if channels == 1:
        return "L"
    return ("BGR" if image.blue_first else "RGB") + ("A" if channels == 4 else "")
