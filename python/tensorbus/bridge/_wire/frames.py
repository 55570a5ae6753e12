"""The layout of frames, and a reader for frames in a stream of bytes."""

from __future__ import annotations

import struct
from typing import Annotated, Any, Protocol

import msgspec

from tensorbus._base.errors import ProtocolError
from tensorbus.bridge._wire.compression import decompressed

VERSION = 1
MAGIC = "tensorbus-bridge"
ANY = "*"  # HELLO.known: any session with this bridge
MAX_BYTES = 1 << 20  # max. size of the body of a frame
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
    """The body of a frame: its fields in order (docs/internals/bridge_protocol.md, section 2)."""


class Hello(Frame, frozen=True):
    magic: Name
    version: Count
    bridge: Name
    machine: Name
    lane: Name  # "express" or "bulk"
    connection: Name  # the same for both lanes, chosen by the side that connects
    known: Name  # the session to continue, by its first connection; ANY; "" for none
    codecs: list[Name]  # that the sender can read: "zstd" or none


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
    whole: bool  # all were named on this connection; unnamed publishers, streams, channels are gone


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
    """A tensor in the bytes of its sample."""

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
    lost: Count = 0  # samples lost by the sender before the stream's first sample; sent if not 0


class Ended(Frame, frozen=True):
    complete: bool  # the publisher was closed
    samples: Count  # total of the stream
    text: str  # why the stream was refused or failed; "" if it was not


class QueueEntry(Frame, frozen=True):
    """A queue of the sender's machine; that of a service if the name begins with "service:"."""

    key: Name
    name: Name
    maxsize: Count
    max_bytes: Count
    redeliver: bool


class Queues(Frame, frozen=True):
    added: list[QueueEntry]
    removed: list[str]  # keys
    whole: bool  # all were named on this connection; unnamed queues are gone


class Open(Frame, frozen=True):
    kind: Name
    key: Name
    next: Count
    published: Count
    samples: Count
    cost: Count


class Closed(Frame, frozen=True):
    text: str  # why the channel has ended; "" if not by an error


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
_discarded = memoryview(bytearray(MAX_BYTES))


def discarded(length: int) -> memoryview:
    """Returns a buffer for the bytes of a discarded CHUNK."""
    return _discarded[:length]


def encode(frame: Frame, stream: int = 0) -> bytes:
    """Returns a frame with its header.

    Raises:
        ValueError: the frame is too large.
    """
    fields: object = frame
    if isinstance(frame, Begin) and not frame.lost:  # older versions do not know this field
        fields = msgspec.structs.astuple(frame)[:-1]
    body = _ENCODER.encode(fields)
    if len(body) > MAX_BYTES:
        raise ValueError(f"{type(frame).__name__}: {len(body)} bytes; a frame has at most 1 MiB")
    return _HEADER.pack(len(body), _NUMBERS[type(frame)], 0, 0, stream) + body


def chunk_header(length: int, stream: int) -> bytes:
    """Returns the header of a CHUNK, whose bytes must follow."""
    return _HEADER.pack(length, CHUNK, 0, 0, stream)


def zstd_chunk(body: bytes, stream: int) -> bytes:
    """Returns the frame of a compressed CHUNK."""
    return _HEADER.pack(len(body), ZSTD, 0, 0, stream) + body


class Handler(Protocol):
    """The receiver of frames."""

    def on_frame(self, frame: Frame, stream: int) -> None: ...
    def chunk_target(self, stream: int, length: int) -> memoryview:
        """Returns the buffer for the bytes of a CHUNK: `length` bytes."""
        ...

    def on_chunk(self, stream: int, length: int) -> None:
        """Called when the buffer of chunk_target() is filled."""
        ...


class FrameReader:
    """Reads frames from a stream of bytes. Bytes of a CHUNK are received in place.

    Fill a part of buffer(), then call filled(). The handler is called for each complete frame. All
    errors are errors of the peer: after a ProtocolError nothing more may be read.

    Args:
        handler: gets the frames.
        ahead: size in bytes of the buffer while no CHUNK is expected. Bytes of a CHUNK that arrive
            in this buffer are copied.
    """

    def __init__(self, handler: Handler, ahead: int) -> None:
        self._handler = handler
        self._ahead = ahead
        self._buffer = bytearray(ahead)
        self._begin = 0  # of the bytes that are not read yet
        self._end = 0
        self._chunk: memoryview | None = None  # the part of a CHUNK that is missing
        self._chunk_of = (0, 0)  # its stream and length

    def buffer(self) -> memoryview:
        """Returns the buffer for the next bytes."""
        if self._chunk is not None:
            return self._chunk
        return memoryview(self._buffer)[self._end :]

    def filled(self, count: int) -> None:
        """Reads frames after `count` bytes were received into buffer()."""
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
        if length > MAX_BYTES or zero or zeros:
            raise ProtocolError(f"frame.length: {length}, type {number}")
        if number == CHUNK:
            self._begin += HEADER_BYTES
            self._read_chunk(stream, length)
            return True
        if left < HEADER_BYTES + length:
            return False
        begin = self._begin + HEADER_BYTES
        self._begin = begin + length
        # A copy costs little: decoding copies strings and bytes of the frame anyway.
        body = bytes(memoryview(self._buffer)[begin : begin + length])
        if number == ZSTD:
            self._read_zstd(stream, body)
        else:
            self._handler.on_frame(decode(number, body), stream)
        return True

    def _read_zstd(self, stream: int, body: bytes) -> None:
        data = decompressed(body, MAX_BYTES)
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

    # Moves an incomplete frame to the front, and makes room for all of it.
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
    """Decodes the body of a frame. The body is not trusted.

    Raises:
        ProtocolError: the type or a field is invalid; the text names the field.
    """
    decoder: Any = _DECODERS.get(number)
    if decoder is None:
        raise ProtocolError(f"frame.type: {number}")
    try:
        frame: Frame = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"{_TYPES[number].__name__}: {error}") from None
    return frame
