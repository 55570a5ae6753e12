"""Frames between bridges: however the bytes are cut, and whatever is in them."""

from __future__ import annotations

import contextlib
import random
import re
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorbus as tb
from support.repository import ROOT
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire.compression import compressed
from tensorbus.bridge._wire.frames import (
    Begin,
    Credit,
    Ended,
    Frame,
    FrameReader,
    Hello,
    Ping,
    PublisherEntry,
    Publishers,
    TensorEntry,
    Want,
)

FRAMES: list[tuple[Frame, int]] = [
    (Hello(frames.MAGIC, frames.VERSION, "ab" * 16, "robot", "express", "c", "", ["zstd"]), 0),
    (Publishers([PublisherEntry("k.1", "camera", "", "", 8, 1, True)], ["k.2"], True), 0),
    (Want("k.1", 5, 0, 64, 1 << 20), 3),
    (Credit(6, 1, 65, 2 << 20), 3),
    (Begin(5, 0, 1, 0, b"\x80", [TensorEntry("uint8", [2, 3], [3, 1], 0, 0)], 6), 3),
    (Ended(True, 9, ""), 3),
    (Ping(7), 0),
]

# The machine may do other things, too.
BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Collector:
    """Takes frames, and the bytes of chunks."""

    def __init__(self) -> None:
        self.frames: list[tuple[Frame, int]] = []
        self.chunks: list[tuple[int, bytes]] = []
        self._target = bytearray()

    def on_frame(self, frame: Frame, stream: int) -> None:
        self.frames.append((frame, stream))

    def chunk_target(self, stream: int, length: int) -> memoryview:
        self._target = bytearray(length)
        return memoryview(self._target)

    def on_chunk(self, stream: int, length: int) -> None:
        assert len(self._target) == length
        self.chunks.append((stream, bytes(self._target)))


def feed(data: bytes, sizes: list[int], ahead: int = 64) -> Collector:
    """What comes out of data that arrives in pieces of these sizes, over and over."""
    collector = Collector()
    reader = FrameReader(collector, ahead)
    at = turn = 0
    while at < len(data):
        buffer = reader.buffer()
        assert len(buffer) > 0
        count = min(sizes[turn % len(sizes)], len(buffer), len(data) - at)
        buffer[:count] = data[at : at + count]
        reader.filled(count)
        at, turn = at + count, turn + 1
    return collector


def chunk(data: bytes, stream: int) -> bytes:
    return frames.chunk_header(len(data), stream) + data


def zstd(data: bytes, stream: int) -> bytes:
    body = compressed(data)
    assert body is not None
    return frames.zstd_chunk(body, stream)


@BUSY
@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.sampled_from([16, 64, 4096]))
def test_frames_come_out_however_the_bytes_are_cut(sizes: list[int], ahead: int) -> None:
    payload = random.Random(1).randbytes(700)
    data = b"".join(frames.encode(frame, stream) for frame, stream in FRAMES)
    data = data + chunk(payload, 3) + data + zstd(bytes(9000), 3) + chunk(b"x", 4)
    got = feed(data, sizes, ahead)
    assert got.frames == FRAMES * 2
    assert got.chunks == [(3, payload), (3, bytes(9000)), (4, b"x")]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (struct.pack("<IBBHQ", frames.MAX_BYTES + 1, 7, 0, 0, 1), "frame.length"),
        (struct.pack("<IBBHQ", 0, 7, 0, 0, 1), "CHUNK.length"),
        (struct.pack("<IBBHQ", 0, 14, 0, 0, 1), "ZSTD"),
        (frames.zstd_chunk(b"nonsense", 1), "ZSTD"),
        (frames.zstd_chunk(compressed(bytes(frames.MAX_BYTES + 1)) or b"", 1), "ZSTD"),
        (frames.zstd_chunk((compressed(bytes(1000)) or b"")[:-4], 1), "ZSTD"),
        (struct.pack("<IBBHQ", 0, 99, 0, 0, 1), "frame.type"),
        (struct.pack("<IBBHQ", 1, 5, 0, 0, 1) + b"\xc0", "Credit"),
        (struct.pack("<IBBHQ", 2, 5, 1, 0, 1) + b"\x90\x90", "frame.length"),
        (struct.pack("<IBBHQ", 2, 5, 0, 0, 1) + b"\x91\x00", "Credit"),
        (struct.pack("<IBBHQ", 6, 5, 0, 0, 1) + b"\x95\x00\x00\x00\x00\x00", "Credit"),
        (struct.pack("<IBBHQ", 5, 5, 0, 0, 1) + b"\x94\xff\x00\x00\x00", "Credit"),
    ],
)
def test_nonsense_is_named(data: bytes, named: str) -> None:
    with pytest.raises(tb.ProtocolError, match=named):
        feed(data, [len(data)])


@BUSY
@given(st.binary(max_size=300), st.integers(0, 12))
def test_a_body_of_any_bytes_is_a_frame_or_a_protocol_error(body: bytes, number: int) -> None:
    with contextlib.suppress(tb.ProtocolError):
        assert isinstance(frames.decode(number, body), Frame)


@BUSY
@given(st.data())
def test_a_frame_with_some_bytes_changed_is_a_frame_or_a_protocol_error(
    data: st.DataObject,
) -> None:
    frame, stream = data.draw(st.sampled_from(FRAMES))
    encoded = bytearray(frames.encode(frame, stream))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(tb.ProtocolError):
        feed(bytes(encoded), [7])


def test_the_page_has_the_frames_of_the_code() -> None:
    page = (ROOT / "docs/internals/bridge_protocol.md").read_text()
    rows = re.findall(r"^\| ([A-Z]+) \| (\d+) \|.*\| (.*) \|$", page, re.MULTILINE)
    described = {
        int(number): (name, re.findall(r"`(\w+)`", fields)) for name, number, fields in rows
    }
    assert described.pop(frames.CHUNK)[0] == "CHUNK"
    assert described.pop(frames.ZSTD)[0] == "ZSTD"
    assert described == {
        number: (frame.__name__.upper(), list(frame.__struct_fields__))
        for number, frame in frames._TYPES.items()
    }
