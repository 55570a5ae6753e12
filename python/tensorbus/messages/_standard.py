"""The standard messages, for data that robots and networks send most often."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorbus._base.errors import MessageError, Unsupported
from tensorbus._base.public import public
from tensorbus._tensors import torch_tensors
from tensorbus.messages._message import Message
from tensorbus.messages._mismatch import class_name
from tensorbus.messages._registry import add_standard

if TYPE_CHECKING:
    import numpy as np
    import torch
    from typing_extensions import Self

__all__ = [
    "ArrayMessage",
    "BytesMessage",
    "DictMessage",
    "FloatMessage",
    "HeaderMessage",
    "ImageMessage",
    "IntMessage",
    "ListMessage",
    "MultiArrayMessage",
    "MultiTensorMessage",
    "PointCloudMessage",
    "PoseMessage",
    "StringMessage",
    "TensorMessage",
    "TimestampMessage",
    "TransformMessage",
]


@dataclass
class StringMessage(Message):
    """A text."""

    data: str
    """The text."""


@dataclass
class IntMessage(Message):
    """A whole number; C++ reads numbers of up to 64 bits."""

    data: int
    """The number."""


@dataclass
class FloatMessage(Message):
    """A number."""

    data: float
    """The number."""


@dataclass
class BytesMessage(Message):
    """Bytes."""

    data: bytes
    """The bytes."""


@dataclass
class DictMessage(Message):
    """A dict of any values that can be sent, arrays and tensors included. Keys keep their types."""

    data: dict[Any, Any]
    """The dict."""


@dataclass
class ListMessage(Message):
    """A list of any values that can be sent, arrays and tensors included."""

    data: list[Any]
    """The list."""


@dataclass
class ArrayMessage(Message):
    """A NumPy array of any shape and dtype.

    >>> import numpy as np
    >>> ArrayMessage(np.zeros(3), name="joints").validate()
    """

    data: np.ndarray[Any, Any]
    """The array."""
    name: str = ""
    """Its name, chosen by the program."""
    frame_id: str = ""
    """The frame of its coordinates."""


@dataclass
class MultiArrayMessage(Message):
    """NumPy arrays by name."""

    arrays: dict[str, np.ndarray[Any, Any]]
    """The arrays, by their names."""
    frame_id: str = ""
    """The frame of their coordinates."""


@dataclass
class TensorMessage(Message):
    """A torch tensor with dtype, shape, strides, device and `requires_grad`, without gradients.

    In a process that cannot use its device, the tensor arrives in main memory; `device` is still
    the device on which it was published.

    Raises:
        MessageError: `data` is not a torch tensor.
        Unsupported: PyTorch is not installed.
    """

    data: torch.Tensor
    """The tensor."""
    name: str = ""
    """Its name, chosen by the program."""

    def __post_init__(self) -> None:
        _check_is_tensor("TensorMessage.data", self.data)

    @property
    def device(self) -> str:
        """The device on which it was published: "cpu", "cuda:0", ..."""
        return torch_tensors.published_on(self.data)


@dataclass
class MultiTensorMessage(Message):
    """Torch tensors by name. It raises like `TensorMessage`."""

    tensors: dict[str, torch.Tensor]
    """The tensors, by their names."""

    def __post_init__(self) -> None:
        for name, tensor in self.tensors.items():
            _check_is_tensor(f"MultiTensorMessage.tensors[{name!r}]", tensor)

    @property
    def devices(self) -> dict[str, str]:
        """The device of each tensor: see `TensorMessage.device`."""
        return {name: torch_tensors.published_on(tensor) for name, tensor in self.tensors.items()}


@dataclass
class ImageMessage(Message):
    """An image of shape (height, width) or (height, width, channels).

    A `width` or `height` of 0 is replaced by the size in the shape, in pixels.

    >>> import numpy as np
    >>> image = ImageMessage(np.zeros((480, 640, 3), np.uint8))
    >>> image.width, image.height, image.encoding
    (640, 480, 'rgb8')
    """

    data: np.ndarray[Any, Any]
    """The pixels: (height, width) or (height, width, channels)."""
    encoding: str = "rgb8"
    """The meaning of the channels, as in ROS: "rgb8", "bgr8", "mono8", "16UC1" and so on."""
    width: int = 0
    """Pixels in a row."""
    height: int = 0
    """Rows of pixels."""

    def __post_init__(self) -> None:
        shape: Any = getattr(self.data, "shape", ())
        if len(shape) >= 2:
            self.width = self.width or int(shape[1])
            self.height = self.height or int(shape[0])


@dataclass
class PointCloudMessage(Message):
    """Points of shape (N, 3), with properties of each point."""

    points: np.ndarray[Any, Any]
    """The positions: (N, 3), in metres if `frame_id` is a frame of ROS."""
    colors: np.ndarray[Any, Any] | None = None
    """The color of each point: (N, 3)."""
    intensity: np.ndarray[Any, Any] | None = None
    """The intensity of each point: (N,)."""
    normals: np.ndarray[Any, Any] | None = None
    """The normal of each point: (N, 3)."""
    frame_id: str = ""
    """The frame of the coordinates."""


@dataclass
class PoseMessage(Message):
    """The position and orientation of the frame `child_frame_id` in the frame `frame_id`."""

    position: np.ndarray[Any, Any]
    """(3,): x, y, z, in metres if the frames are those of ROS."""
    orientation: np.ndarray[Any, Any]
    """(4,): a quaternion x, y, z, w."""
    frame_id: str = ""
    """The frame in which the pose is given."""
    child_frame_id: str = ""
    """The frame whose pose it is."""


@dataclass
class TransformMessage(Message):
    """A homogeneous transform between two frames, as a matrix of shape (4, 4)."""

    matrix: np.ndarray[Any, Any]
    """The matrix: (4, 4). It maps coordinates of `child_frame_id` to those of `frame_id`."""
    frame_id: str = ""
    """The frame into which it maps."""
    child_frame_id: str = ""
    """The frame from which it maps."""


@dataclass
class TimestampMessage(Message):
    """A time: seconds since 1970, and nanoseconds of the current second."""

    sec: int
    """Seconds since 1970."""
    nanosec: int
    """Nanoseconds of the current second, 0 to 999,999,999."""

    @classmethod
    def now(cls) -> Self:
        """The time of the wall clock."""
        return cls(*divmod(time.time_ns(), 1_000_000_000))


@dataclass
class HeaderMessage(Message):
    """Time, frame and sequence number, for use as a field of other messages."""

    stamp_sec: int
    """Seconds since 1970."""
    stamp_nanosec: int
    """Nanoseconds of the current second, 0 to 999,999,999."""
    frame_id: str = ""
    """The frame of the data."""
    sequence: int = 0
    """The number of the message, given by the program."""


def _check_is_tensor(path: str, value: object) -> None:
    try:
        import torch
    except ImportError:
        raise Unsupported(
            f"{path} is a torch tensor, and PyTorch is not installed: pip install tensorbus[torch]"
        ) from None
    if not isinstance(value, torch.Tensor):
        raise MessageError(f"{path}: expected tensor, got {class_name(type(value))}")


for _cls in map(globals().__getitem__, __all__):
    public(_cls)
    _cls._message_names = {"Any": Any}  # for annotations: `public` has changed `__module__`
    add_standard(_cls)
