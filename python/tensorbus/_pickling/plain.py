"""Everyday values as a message, without looking for tensors: numbers, texts, small containers.

Their pickle is the C pickler's. The message is the one that `pickler` makes of any object, in a
form that is recognised by its first bytes.
"""

from __future__ import annotations

import pickle

_SCALARS = frozenset({int, float, str, bytes, bool, type(None)})
_MOST_DEPTH = 4
_MOST_VALUES = 64  # of a container

# MessagePack: an extension of 16-bit length, of type 3: ["pickle", binary of 16-bit length, []].
_RECORD = b"\xc8"
_PICKLE = b"\x03\x93\xa6pickle\xc5"
_NOTHING = b"\x90"
_AROUND = len(_PICKLE) + 2 + len(_NOTHING) - 1  # bytes of the extension, without its type
_MOST = 0xFFFF - _AROUND


def is_plain(item: object, depth: int = 0) -> bool:
    """Is that an everyday value, in which no tensor can be?"""
    kind = type(item)
    if kind in _SCALARS:
        return True
    if depth == _MOST_DEPTH:
        return False
    if kind is tuple or kind is list:
        values: list[object] | tuple[object, ...] = item  # type: ignore[assignment]
    elif kind is dict:
        keys: dict[object, object] = item  # type: ignore[assignment]
        for key in keys:
            if type(key) not in _SCALARS:
                return False
        values = tuple(keys.values())
    else:
        return False
    if len(values) > _MOST_VALUES:
        return False
    for value in values:
        if type(value) not in _SCALARS and not is_plain(value, depth + 1):
            return False
    return True


def plain_fields(item: object) -> bytes:
    """The fields of the message of a value that `is_plain`."""
    return fields_of(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))


def fields_of(pickled: bytes) -> bytes:
    """The fields of the message of a pickle without tensors beside it."""
    count = len(pickled)
    if count > _MOST:
        return (
            b"\xc9"
            + (count + _AROUND + 2).to_bytes(4, "big")
            + b"\x03\x93\xa6pickle\xc6"
            + count.to_bytes(4, "big")
            + pickled
            + _NOTHING
        )
    return b"".join(
        (
            _RECORD,
            (count + _AROUND).to_bytes(2, "big"),
            _PICKLE,
            count.to_bytes(2, "big"),
            pickled,
            _NOTHING,
        )
    )


_BEGIN = 3 + len(_PICKLE) + 2


def plain_pickle(fields: bytes) -> bytes | None:
    """The pickle in such fields; None for others, and for one that names something of PyTorch's.

    Of those, `pickler` looks at the numbers.
    """
    if not fields.startswith(_RECORD) or fields[3 : _BEGIN - 2] != _PICKLE:
        return None
    count = len(fields) - _BEGIN - 1
    if (
        count < 0
        or int.from_bytes(fields[1:3], "big") != count + _AROUND
        or int.from_bytes(fields[_BEGIN - 2 : _BEGIN], "big") != count
        or fields[-1:] != _NOTHING
    ):
        return None
    pickled = fields[_BEGIN:-1]
    return None if b"torch" in pickled else pickled
