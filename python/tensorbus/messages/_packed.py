"""A message as bytes: for files, and for transports other than the bus.

The bytes, little-endian:

======  ==================================================================================
offset  content
======  ==================================================================================
0       the letters TBM1
4       u32: length of the table
8       u64: fingerprint of the type
16      u64: timestamp_ns
24      u64: sequence
32      the table, a MessagePack array: the type's name, the fields as on the bus
        (`tensorbus._codec.fields`), and for each tensor an array of dtype, shape, flags and length
        in bytes
...     the elements of each tensor, row-major, without gaps
======  ==================================================================================
"""

from __future__ import annotations

import struct
import time
from typing import Any

from msgspec import DecodeError, ValidationError, msgpack

from tensorbus._base.errors import MessageError, ProtocolError
from tensorbus._codec.fields import packed_into
from tensorbus._core import unpack as unpack_fields
from tensorbus.messages import _registry
from tensorbus.messages._packed_tensors import PackedTensor, Packing, Unpacker
from tensorbus.messages._plan import Plan, plan_of

_HEAD = struct.Struct("<4sIQQQ")
_MAGIC = b"TBM1"

_Table = tuple[str, bytes, list[tuple[str, list[int], int, int]]]
Header = tuple[int, int, int]


def pack(message: Any, timestamp_ns: int | None, sequence: int) -> bytes:
    """See `Message.to_bytes`."""
    plan = plan_of(type(message))
    packing, fields = packed_into(Packing, plan.checked(message))
    table = msgpack.encode((plan.name, fields, packing.table))
    at = time.time_ns() if timestamp_ns is None else timestamp_ns
    head = _HEAD.pack(_MAGIC, len(table), plan.fingerprint, at, sequence)
    return b"".join([head, table, *packing.elements])


def unpack(data: bytes, cls: type[Any] | None) -> tuple[Any, Header]:
    """The message, with fingerprint, timestamp and sequence. Raises like `Message.from_bytes`.

    Args:
        data: untrusted input.
        cls: the expected class; None: the class that the name in the bytes selects.
    """
    with memoryview(data) as view:
        header, (name, fields, table), rest = _parts_of(view.cast("B"))
        plan = _plan_for(name, cls)
        tensors = _tensors_in(table, rest)
    return unpack_fields(fields, Unpacker(tensors, plan), plan.core), header


def fingerprint_in(data: bytes) -> int:
    """The fingerprint of the type in these bytes; 0 if they are too short for a message."""
    with memoryview(data) as view:
        if len(view) < _HEAD.size:
            return 0
        fingerprint: int = _HEAD.unpack_from(view)[2]
        return fingerprint


def _parts_of(view: memoryview) -> tuple[Header, _Table, memoryview]:
    if len(view) < _HEAD.size:
        raise ProtocolError(f"a message of {len(view)} bytes, but its head has {_HEAD.size}")
    magic, length, *header = _HEAD.unpack_from(view)
    if magic != _MAGIC:
        raise ProtocolError(f"not a message: the bytes begin with {magic!r}, expected {_MAGIC!r}")
    end = _HEAD.size + length
    if end > len(view):
        raise ProtocolError(f"a message of {len(view)} bytes, but its table ends at {end}")
    try:
        table = msgpack.decode(view[_HEAD.size : end], type=_Table)
    except (DecodeError, ValidationError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the table of a message: {error}") from None
    return (header[0], header[1], header[2]), table, view[end:]


def _plan_for(name: str, cls: type[Any] | None) -> Plan:
    if cls is not None:
        plan = plan_of(cls)
        if plan.name != name:
            raise MessageError(f"these are the bytes of a {name}, expected {plan.name}")
        return plan
    return _registry.plan_named(name)


def _tensors_in(table: list[Any], rest: memoryview) -> list[PackedTensor]:
    """The tensors. All lengths are checked before any byte is copied."""
    total = sum(length for *_, length in table)
    if total != len(rest) or any(length < 0 for *_, length in table):
        raise ProtocolError(f"{len(rest)} bytes of tensors, but their lengths add up to {total}")
    tensors, start = [], 0
    for dtype, shape, flags, length in table:
        elements = bytearray(rest[start : start + length])
        tensors.append(PackedTensor(dtype, tuple(shape), flags, elements))
        start += length
    return tensors
