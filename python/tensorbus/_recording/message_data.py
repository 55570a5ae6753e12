"""The data of recorded messages: `TBR1` in docs/recording.md, section "The file".

The core reads and writes recordings. This module is for messages that other programs read from a
file (`tensorbus.mcap`), and for those that are written to a file without a publisher.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple
from zlib import crc32

from tensorbus._base.errors import InvalidArgument
from tensorbus._codec.fields import packed_into
from tensorbus._recording.recorded_tensor import DTYPES, RecordedTensor
from tensorbus.messages._packed_tensors import Packing

ENCODING = "tensorbus"
"""The message encoding of channels, and the encoding of schemas."""

_MAGIC = b"TBR1"
_HEAD = struct.Struct("<4sIQQQQII")  # magic, CRC-32, bytes, fingerprint, sequence, fields, tensors
_CHECKED = 8  # the checksum covers the head from here on
_TENSOR = struct.Struct("<BBBBH2xQ")  # dtype, flags, dimensions, device, its ordinal, offset
_MAX_DIMS = 64
_ALIGNMENT = 64


class MessageData(NamedTuple):
    """A message: its fields, which are empty for a lone tensor, and its tensors."""

    fingerprint: int
    sequence: int
    fields: bytes
    tensors: list[RecordedTensor]


def decode(data: bytes | memoryview) -> MessageData:
    """The parts of a message's data. Tensors are views of it.

    Raises:
        InvalidArgument: the data is malformed or damaged.
    """
    view = memoryview(data).cast("B")
    try:
        magic, checksum, end, fingerprint, sequence, field_bytes, count, _ = _HEAD.unpack_from(view)
        if magic != _MAGIC:
            raise InvalidArgument(f"not a message of Tensorbus: it begins with {magic!r}")
        if not _HEAD.size <= end <= len(view) or crc32(view[_CHECKED:end]) != checksum:
            raise InvalidArgument("the head of the message is damaged")
        if count > end // _TENSOR.size:
            raise InvalidArgument(f"{count} tensors do not fit into the head of the message")
        place = _HEAD.size
        tensors: list[RecordedTensor] = []
        for _ in range(count):
            place = _decode_tensor(view, place, end, tensors)
    except struct.error as error:
        raise InvalidArgument(f"a message of {len(view)} bytes is incomplete: {error}") from None
    if place + field_bytes != end:
        raise InvalidArgument("the head of the message has another length")
    return MessageData(fingerprint, sequence, bytes(view[place:end]), tensors)


def _decode_tensor(view: memoryview, place: int, end: int, tensors: list[RecordedTensor]) -> int:
    """Adds the tensor whose entry begins at `place`; returns where the entry ends."""
    dims: int
    dtype, flags, dims, device, ordinal, offset = _TENSOR.unpack_from(view, place)
    if dims > _MAX_DIMS or not 0 < dtype < len(DTYPES):
        raise InvalidArgument(f"a tensor of dtype {dtype} with {dims} dimensions")
    sizes = struct.unpack_from(f"<{2 * dims}q", view, place + _TENSOR.size)
    tensors.append(
        RecordedTensor(
            DTYPES[dtype],
            sizes[:dims],
            sizes[dims:],
            flags,
            view[end:],
            offset - end,
            f"cuda:{ordinal}" if device else "cpu",
        )
    )
    return place + _TENSOR.size + 16 * dims


def encode(value: Any, fingerprint: int, sequence: int) -> bytes:
    """The data of a message.

    Args:
        value: the message, or the fields of a typed message; its tensors are NumPy arrays or
            PyTorch's, which are copied.
        fingerprint: of its type; 0: none.
        sequence: its number.

    Raises:
        Unsupported: the message contains a value that cannot be sent; the text gives its place.
    """
    packing, fields = packed_into(Packing, value)
    dims = sum(len(shape) for _, shape, _, _ in packing.table)
    end = _HEAD.size + len(packing) * _TENSOR.size + 16 * dims + len(fields)
    head: list[bytes] = []
    contents: list[bytes] = []
    place = end
    for (dtype, shape, flags, size), elements in zip(packing.table, packing.elements, strict=True):
        zeros = -place % _ALIGNMENT
        head.append(_TENSOR.pack(DTYPES.index(dtype), flags, len(shape), 0, 0, place + zeros))
        head.append(struct.pack(f"<{2 * len(shape)}q", *shape, *_strides(shape)))
        contents += [bytes(zeros), elements]
        place += zeros + size
    fixed = _HEAD.pack(_MAGIC, 0, end, fingerprint, sequence, len(fields), len(packing), 0)
    checked = b"".join([fixed[_CHECKED:], *head, fields])
    return b"".join([_MAGIC, crc32(checked).to_bytes(4, "little"), checked, *contents])


def _strides(shape: list[int]) -> list[int]:
    """The strides of a row-major array, in elements.

    >>> _strides([4, 3, 2])
    [6, 2, 1]
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return strides
