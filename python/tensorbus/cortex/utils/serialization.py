"""Values in bytes, in a format of our own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from tensorbus.messages import ListMessage

TORCH_AVAILABLE: bool = find_spec("torch") is not None


def serialize(value: Any) -> bytes:
    """None, bool, int, float, str, bytes, arrays, tensors, and lists and dicts of these.

    Raises:
        TypeError: something in it cannot be in bytes; the text says what.

    >>> data = serialize({"gain": 0.5})
    >>> deserialize(data) == ({"gain": 0.5}, len(data))
    True
    """
    return ListMessage([value]).to_bytes(timestamp_ns=0)


def deserialize(data: bytes) -> tuple[Any, int]:
    """The value that `serialize` was given, and of how many bytes it was.

    Raises:
        tensorbus.ProtocolError: bytes that `serialize` did not make.
    """
    message, _ = ListMessage.from_bytes(data)
    return message.data[0], len(data)
