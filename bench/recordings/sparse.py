"""A recording of any size that has only holes where its tensors are."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

_MAGIC = b"\x89MCAP0\r\n"
_HEADER, _FOOTER, _CHANNEL, _MESSAGE, _ATTACHMENT = 1, 2, 4, 5, 9
_ATTACHMENT_INDEX, _STATISTICS, _DATA_END = 10, 11, 15
_UINT8 = 2  # as include/tensorbus/values/dtype.hpp has it
_NAME, _TYPE = b"tensorbus.index", b"application/x-tensorbus-index"


def _text(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


def _record(opcode: int, content: bytes) -> bytes:
    return struct.pack("<BQ", opcode, len(content)) + content


def _head(sequence: int, size: int) -> bytes:
    """Of a message that is one tensor of bytes, behind it (docs/recording.md)."""
    head = 48 + 32
    table = struct.pack("<BBB5xQqq", _UINT8, 0, 1, head, size, 1)
    rest = struct.pack("<QQQQII", head, 0, sequence, 0, 1, 0) + table
    return b"TBR1" + struct.pack("<I", zlib.crc32(rest)) + rest


def write_sparse(path: Path, messages: int, size: int, step_ns: int = 10**9) -> int:
    """Writes messages of `size` bytes each; the bytes of the file, nearly all of them holes."""
    with open(path, "wb") as file:
        file.write(_MAGIC + _record(_HEADER, _text(b"") + _text(b"bench")))
        channel = struct.pack("<HH", 1, 0) + _text(b"sparse") + _text(b"tensorbus") + _text(b"")
        file.write(_record(_CHANNEL, channel))
        index = b"TBX1"
        for number in range(messages):
            at, log_time = file.tell(), 10**18 + number * step_ns
            head = _head(number, size)
            content = struct.pack("<HIQQ", 1, number, log_time, log_time)
            length = len(content) + len(head) + size
            file.write(struct.pack("<BQ", _MESSAGE, length) + content + head)
            file.seek(size, os.SEEK_CUR)
            index += struct.pack("<QQQHHI", at, length, log_time, 1, 0, 0)
        place = file.tell()
        attachment = struct.pack("<QQ", 0, 0) + _text(_NAME) + _text(_TYPE)
        attachment += struct.pack("<Q", len(index)) + index
        attachment += struct.pack("<I", zlib.crc32(attachment))
        whole = _record(_ATTACHMENT, attachment)
        file.write(whole + _record(_DATA_END, struct.pack("<I", 0)))
        start = file.tell()
        summary = _record(_CHANNEL, channel)
        counts = struct.pack("<QHIIIIQQI", messages, 0, 1, 1, 0, 0, 0, 0, 0)
        summary += _record(_STATISTICS, counts)
        entry = struct.pack("<QQQQQ", place, len(whole), 0, 0, len(index))
        summary += _record(_ATTACHMENT_INDEX, entry + _text(_NAME) + _text(_TYPE))
        summary += struct.pack("<BQQQ", _FOOTER, 20, start, 0)
        file.write(summary + struct.pack("<I", zlib.crc32(summary)) + _MAGIC)
        return file.tell()
