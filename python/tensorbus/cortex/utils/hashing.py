"""The fingerprints of message types."""

from __future__ import annotations

import struct

from tensorbus.messages import Message
from tensorbus.messages._plan import plan_of

_U64 = struct.Struct(">Q")

_registered: dict[type[Message], int] = {}


def compute_fingerprint(message_class: type[Message]) -> int:
    """A 64-bit hash of the class's name and fields; it is the same in every process.

    >>> from tensorbus import IntMessage
    >>> bytes_to_fingerprint(fingerprint_to_bytes(compute_fingerprint(IntMessage))) == (
    ...     IntMessage.fingerprint()
    ... )
    True
    """
    return plan_of(message_class).fingerprint


def fingerprint_to_bytes(fingerprint: int) -> bytes:
    """The fingerprint as a big-endian u64."""
    return _U64.pack(fingerprint)


def bytes_to_fingerprint(data: bytes) -> int:
    """The fingerprint in the bytes of `fingerprint_to_bytes`."""
    fingerprint: int = _U64.unpack_from(data)[0]
    return fingerprint


def get_cached_fingerprint(message_class: type[Message]) -> int:
    """The registered fingerprint of the class; without one, `compute_fingerprint`."""
    return _registered.get(message_class) or compute_fingerprint(message_class)


def register_fingerprint(message_class: type[Message], fingerprint: int) -> None:
    """Sets the result of `get_cached_fingerprint`. Topics use only `compute_fingerprint`."""
    _registered[message_class] = fingerprint


def clear_fingerprint_cache() -> None:
    """Removes the registered fingerprints."""
    _registered.clear()
