"""Serialization of values, in the format of messages."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from tensorbus.messages import ListMessage

TORCH_AVAILABLE: bool = find_spec("torch") is not None


def serialize(value: Any) -> bytes:
    """Serializes None, bool, int, float, str, bytes, arrays, tensors, and lists and dicts of these.

    Raises:
        TypeError: the value contains a value of another type; the text names it.

    >>> data = serialize({"gain": 0.5})
    >>> deserialize(data) == ({"gain": 0.5}, len(data))
    True
    """
    return ListMessage([value]).to_bytes(timestamp_ns=0)


def deserialize(data: bytes) -> tuple[Any, int]:
    """The value in the bytes of `serialize`, and the number of bytes.

    Raises:
        tensorbus.ProtocolError: the bytes are malformed.
    """
    message, _ = ListMessage.from_bytes(data)
    return message.data[0], len(data)
