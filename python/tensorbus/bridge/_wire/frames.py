"""The frames of two bridges: their layout, and reading them from any cut of the bytes."""

from __future__ import annotations

import struct
from typing import Annotated, Any, Protocol

import msgspec

from tensorbus._base.errors import ProtocolError
from tensorbus.bridge._wire.compression import decompressed

VERSION = 1
MAGIC = "tensorbus-bridge"
ANY = "*"  # in HELLO: whichever session there is
MOST_BYTES = 1 << 20  # of a frame's body
CHUNK = 7
ZSTD = 14  # a compressed CHUNK

_HEADER = struct.Struct("<IBBHQ")
HEADER_BYTES = _HEADER.size

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Offset = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Sequence = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Name = Annotated[str, msgspec.Meta(max_length=2048)]
Dims = Annotated[list[Offset], msgspec.Meta(max_length=64)]


class Frame(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """The body of a frame: its fields, in order (docs/internals/bridge_protocol.md, section 2)."""


class Hello(Frame, frozen=True):
    magic: Name
    version: Count
    bridge: Name
    machine: Name
    lane: Name  # "express" or "bulk"
    connection: Name  # the same for both lanes, chosen by the side that connects
    known: Name  # the session that goes on, by the connection that it began with; ANY; "": none
    codecs: list[Name]  # that it can read; "zstd" or nothing


class PublisherEntry(Frame, frozen=True):
    """A publisher of the sender's machine."""

    key: Name
    topic: Name
    node: Name
    type: Annotated[str, msgspec.Meta(max_length=1 << 16)]
    depth: Count
    history: Count
    reliable: bool


class Publishers(Frame, frozen=True):
    added: list[PublisherEntry]
    removed: list[str]  # keys
    whole: bool  # the first list is complete: what was not in it, or wanted since, is gone


class Want(Frame, frozen=True):
    publisher: Name
    next: Count
    published: Count
    samples: Count
    cost: Count


class Unwant(Frame, frozen=True):
    pass


class Credit(Frame, frozen=True):
    next: Count
    published: Count
    samples: Count
    cost: Count


class TensorEntry(Frame, frozen=True):
    """A tensor, in the bytes of its sample."""

    dtype: Name
    shape: Dims
    strides: Dims  # in elements
    flags: Count
    offset: Count  # of the first element, in bytes


class Begin(Frame, frozen=True):
    sequence: Sequence
    index: Count
    timestamp: Count  # ns since the Unix epoch, by the sender's clock
    fingerprint: Annotated[int, msgspec.Meta(ge=0)]
    fields: bytes
    tensors: list[TensorEntry]
    size: Count  # of the tensors, in bytes
    lost: Count = 0  # by the sender, before the first sample of the stream; sent if not 0


class Ended(Frame, frozen=True):
    complete: bool  # the publisher was closed
    samples: Count  # of the stream, in all
    text: str  # why the stream was refused; "": it was not


class QueueEntry(Frame, frozen=True):
    """A queue of the sender's machine, or a service: its name then begins with "service:"."""

    key: Name
    name: Name
    maxsize: Count
    max_bytes: Count
    redeliver: bool


class Queues(Frame, frozen=True):
    added: list[QueueEntry]
    removed: list[str]  # keys
    whole: bool  # as of Publishers


class Open(Frame, frozen=True):
    kind: Name
    key: Name
    next: Count
    published: Count
    samples: Count
    cost: Count


class Closed(Frame, frozen=True):
    text: str  # why; "": as was asked for


class Ping(Frame, frozen=True):
    sent: Count


class Pong(Frame, frozen=True):
    sent: Count
    received: Count
    replied: Count


_TYPES: dict[int, type[Frame]] = {
    1: Hello,
    2: Publishers,
    3: Want,
    4: Unwant,
    5: Credit,
    6: Begin,
    8: Ended,
    9: Ping,
    10: Pong,
    11: Queues,
    12: Open,
    13: Closed,
}
_NUMBERS = {frame: number for number, frame in _TYPES.items()}
_DECODERS = {number: msgspec.msgpack.Decoder(frame) for number, frame in _TYPES.items()}
_ENCODER = msgspec.msgpack.Encoder()
_discarded = memoryview(bytearray(MOST_BYTES))


def discarded(length: int) -> memoryview:
    """Where the bytes of a CHUNK go that nobody takes."""
    return _discarded[:length]


def encode(frame: Frame, stream: int = 0) -> bytes:
    """A frame with its header.

    Raises:
        ValueError: it is larger than a frame may be.
    """
    fields: object = frame
    if isinstance(frame, Begin) and not frame.lost:  # other versions know no such field
        fields = msgspec.structs.astuple(frame)[:-1]
    body = _ENCODER.encode(fields)
    if len(body) > MOST_BYTES:
        raise ValueError(f"{type(frame).__name__}: {len(body)} bytes; a frame has at most 1 MiB")
    return _HEADER.pack(len(body), _NUMBERS[type(frame)], 0, 0, stream) + body


def chunk_header(length: int, stream: int) -> bytes:
    """The header of a CHUNK; its bytes follow."""
    return _HEADER.pack(length, CHUNK, 0, 0, stream)


def zstd_chunk(body: bytes, stream: int) -> bytes:
    """The frame of a CHUNK that is compressed."""
    return _HEADER.pack(len(body), ZSTD, 0, 0, stream) + body


class Handler(Protocol):
    """What takes the frames."""

    def on_frame(self, frame: Frame, stream: int) -> None: ...
    def chunk_target(self, stream: int, length: int) -> memoryview:
        """Where the bytes of a CHUNK go: `length` bytes."""
        ...

    def on_chunk(self, stream: int, length: int) -> None:
        """They are there."""
        ...


class FrameReader:
    """Cuts frames out of a stream of bytes. Bytes of a CHUNK are received where they belong.

    Ask for a buffer, fill a part of it, and say how much. A handler is called when its frame is
    complete. Every error is the peer's: ProtocolError, after which nothing more may be read.

    Args:
        handler: gets the frames.
        ahead: bytes that are received at once where no CHUNK is expected. Those of a CHUNK that
            come with them are copied.
    """

    def __init__(self, handler: Handler, ahead: int) -> None:
        self._handler = handler
        self._ahead = ahead
        self._buffer = bytearray(ahead)
        self._begin = 0  # of what is not read yet
        self._end = 0
        self._chunk: memoryview | None = None  # what is missing of one
        self._chunk_of = (0, 0)  # stream, length

    def buffer(self) -> memoryview:
        """Where the next bytes are to go."""
        if self._chunk is not None:
            return self._chunk
        return memoryview(self._buffer)[self._end :]

    def filled(self, count: int) -> None:
        """So many bytes of that buffer have come."""
        if self._chunk is not None:
            self._chunk = self._chunk[count:]
            if not self._chunk:
                self._finish_chunk()
            return
        self._end += count
        while self._read_one():
            pass
        self._make_room()

    def _read_one(self) -> bool:
        left = self._end - self._begin
        if self._chunk is not None or left < HEADER_BYTES:
            return False
        length, number, zero, zeros, stream = _HEADER.unpack_from(self._buffer, self._begin)
        if length > MOST_BYTES or zero or zeros:
            raise ProtocolError(f"frame.length: {length}, type {number}")
        if number == CHUNK:
            self._begin += HEADER_BYTES
            self._read_chunk(stream, length)
            return True
        if left < HEADER_BYTES + length:
            return False
        begin = self._begin + HEADER_BYTES
        self._begin = begin + length
        # A copy, which strings and bytes of the frame would be anyway.
        body = bytes(memoryview(self._buffer)[begin : begin + length])
        if number == ZSTD:
            self._read_zstd(stream, body)
        else:
            self._handler.on_frame(decode(number, body), stream)
        return True

    def _read_zstd(self, stream: int, body: bytes) -> None:
        data = decompressed(body, MOST_BYTES)
        self._handler.chunk_target(stream, len(data))[:] = data
        self._handler.on_chunk(stream, len(data))

    def _read_chunk(self, stream: int, length: int) -> None:
        if length == 0:
            raise ProtocolError("CHUNK.length: 0")
        target = self._handler.chunk_target(stream, length)
        self._chunk_of = (stream, length)
        here = min(length, self._end - self._begin)
        target[:here] = memoryview(self._buffer)[self._begin : self._begin + here]
        self._begin += here
        self._chunk = target[here:]
        if here == length:
            self._finish_chunk()

    def _finish_chunk(self) -> None:
        self._chunk = None
        self._handler.on_chunk(*self._chunk_of)

    # Of an incomplete frame what is there goes to the front, and there is room for all of it.
    def _make_room(self) -> None:
        left = self._end - self._begin
        needed = self._ahead
        if left >= HEADER_BYTES:
            length = _HEADER.unpack_from(self._buffer, self._begin)[0]
            needed = max(needed, HEADER_BYTES + length)
        rest = self._buffer[self._begin : self._end]
        if needed != len(self._buffer):
            self._buffer = bytearray(needed)
        self._buffer[:left] = rest
        self._begin, self._end = 0, left


def decode(number: int, body: bytes) -> Frame:
    """The frame of a body of any origin.

    Raises:
        ProtocolError: there is no such frame; the text names the field.
    """
    decoder: Any = _DECODERS.get(number)
    if decoder is None:
        raise ProtocolError(f"frame.type: {number}")
    try:
        frame: Frame = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"{_TYPES[number].__name__}: {error}") from None
    return frame
