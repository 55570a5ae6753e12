"""The fingerprints of message types."""

from __future__ import annotations

import struct

from tensorbus.messages import Message
from tensorbus.messages._plan import plan_of

_U64 = struct.Struct(">Q")

_registered: dict[type[Message], int] = {}


def compute_fingerprint(message_class: type[Message]) -> int:
    """64 bits of the class's name and its fields, the same in every process.

    >>> from tensorbus import IntMessage
    >>> bytes_to_fingerprint(fingerprint_to_bytes(compute_fingerprint(IntMessage))) == (
    ...     IntMessage.fingerprint()
    ... )
    True
    """
    return plan_of(message_class).fingerprint


def fingerprint_to_bytes(fingerprint: int) -> bytes:
    """As a big-endian u64."""
    return _U64.pack(fingerprint)


def bytes_to_fingerprint(data: bytes) -> int:
    """What `fingerprint_to_bytes` made."""
    fingerprint: int = _U64.unpack_from(data)[0]
    return fingerprint


def get_cached_fingerprint(message_class: type[Message]) -> int:
    """What was registered for the class, else `compute_fingerprint`."""
    return _registered.get(message_class) or compute_fingerprint(message_class)


def register_fingerprint(message_class: type[Message], fingerprint: int) -> None:
    """What `get_cached_fingerprint` is to return. Topics compare what the classes say."""
    _registered[message_class] = fingerprint


def clear_fingerprint_cache() -> None:
    """Forgets what was registered."""
    _registered.clear()
