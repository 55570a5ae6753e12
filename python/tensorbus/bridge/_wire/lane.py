"""One connection between two bridges: receives and sends frames, and checks if the peer lives."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from time import thread_time
from typing import TYPE_CHECKING, Any, Protocol

from tensorbus._base.errors import ProtocolError
from tensorbus.bridge._rules import Peer
from tensorbus.bridge._shortage import SHORTAGES, require_shortage
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire.compression import ZSTD
from tensorbus.bridge._wire.frames import Ended, Frame, FrameReader, Hello, Ping, Pong
from tensorbus.bridge._wire.writers import SocketWriter, TransportWriter, Writer

if TYPE_CHECKING:
    from tensorbus.bridge._clock import Clock

EXPRESS, BULK = "express", "bulk"
_AHEAD = 4 << 10  # bytes received at once while no CHUNK is expected

PING_EVERY = 1.0  # seconds
SILENCE = 3.0  # seconds without received bytes after which a connection is considered dead
_MAX_REASON = 500  # characters
_LONG = 0.01  # seconds of CPU time; if received bytes take more, reading pauses for that time
_MAX_UNSENT = 16 << 20  # unsent bytes above which the connection is closed


class ConnectionOver(Exception):
    """A lane has come to a connection that has ended meanwhile. This is no error of the peer."""

    def __init__(self) -> None:
        super().__init__("the other lane of the connection has ended meanwhile")


class LaneOwner(Protocol):
    """The owner of a lane after HELLO: a session."""

    def on_frame(self, lane: Lane, frame: Frame, stream: int) -> None: ...
    def chunk_target(self, lane: Lane, stream: int, length: int) -> memoryview: ...
    def on_chunk(self, lane: Lane, stream: int, length: int) -> None: ...
    def on_writable(self, lane: Lane) -> None: ...
    def on_lost(self, lane: Lane, why: str) -> None: ...


class Lane(asyncio.BufferedProtocol):
    """A connection. After HELLO its owner is the session that `greeter` returns.

    Args:
        greeter: called with the lane and the peer's HELLO; returns the owner of the lane.
        gone: called with the lane and the reason if the lane ends before HELLO.
    """

    def __init__(
        self,
        greeter: Callable[[Lane, Hello], LaneOwner],
        gone: Callable[[Lane, str], None],
    ) -> None:
        self._greeter = greeter
        self._gone = gone
        self._owner: LaneOwner | None = None
        self._reader = FrameReader(self, _AHEAD)
        self._abort: Callable[[], object] | None = None
        self._writer: Writer | None = None
        self._loop = asyncio.get_running_loop()
        self.made = self._heard = self._loop.time()
        self._watching: asyncio.TimerHandle | None = None
        self._why = ""
        self.refused = False  # ended by a protocol error, here or at the peer
        self._silent = True
        self._transport: asyncio.Transport | None = None
        self.clock: Clock | None = None
        self.name = ""  # EXPRESS or BULK, known after HELLO
        self.reads_zstd = False
        self.peer = Peer("", None)

    def begin(self, peer: Peer, writer: Writer, abort: Callable[[], None]) -> None:
        """Called when the connection is established.

        Args:
            abort: ends the connection at once.
        """
        self.peer = peer
        self._writer = writer
        self._abort = abort
        self._heard = self._loop.time()
        self._watch()

    def connecting(self, abandon: Callable[[], object]) -> None:
        """Called before the connection is established; `abandon` stops the attempt."""
        self._abort = abandon

    # Called by asyncio.
    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._abort = transport.abort
        try:
            self._begin_over(transport)
        except OSError as error:  # the peer has closed the connection, or no descriptor is left
            self.close(str(error))

    def _begin_over(self, transport: Any) -> None:
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        address = transport.get_extra_info("peername")
        name = f"{address[0]}:{address[1]}" if address else "?"
        self.peer = Peer(name, None if tls is None else tls.getpeercert())
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE * 1000))
        writer: Writer
        if tls is None:
            writer = SocketWriter(connection.fileno(), self.resume_writing, self.close)
        else:
            transport.set_write_buffer_limits(high=0)
            writer = TransportWriter(transport)
        self.begin(self.peer, writer, transport.abort)

    def get_buffer(self, _: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, count: int) -> None:
        if self.closed:  # the reader may be in the middle of an invalid frame
            return
        self._heard = self._loop.time()
        self._silent = False
        began = thread_time()
        try:
            self._reader.filled(count)
        except ProtocolError as error:
            self.refuse(error)
        except ConnectionOver as over:
            self.close(str(over))
        except SHORTAGES as error:  # the session continues over the next connection
            require_shortage(error)
            self.close(str(error) or "no memory is left")
        spent = thread_time() - began
        if spent > _LONG and self._transport is not None and not self.closed:
            self._transport.pause_reading()
            self._loop.call_later(spent, self._transport.resume_reading)

    def eof_received(self) -> None:
        if self._abort is not None:
            self._abort()

    def resume_writing(self) -> None:
        if self._owner is not None:
            self._owner.on_writable(self)

    def connection_lost(self, error: Exception | None) -> None:
        why = self._why or (str(error) if error else "the peer has hung up")
        if self._watching is not None:
            self._watching.cancel()
        if self._writer is not None:
            self._writer.close()
        self._abort = self._writer = self._transport = None
        if self._owner is not None:
            self._owner.on_lost(self, why)
        else:
            self._gone(self, why)

    # Called by the frame reader.
    def on_frame(self, frame: Frame, stream: int) -> None:
        if isinstance(frame, Ended) and stream == 0:
            self.refused = True
            self.close(f"the peer says: {frame.text[:_MAX_REASON]!r}")
        elif self._owner is None:
            self._greet(frame)
        elif isinstance(frame, Ping):
            received = time.time_ns()
            self.send(Pong(frame.sent, received, time.time_ns()))
        elif isinstance(frame, Pong):
            if self.clock is not None:
                now = time.time_ns()
                sent = now - (time.monotonic_ns() - frame.sent)
                self.clock.heard(sent, frame.received, frame.replied, now)
        else:
            self._owner.on_frame(self, frame, stream)

    def chunk_target(self, stream: int, length: int) -> memoryview:
        if self._owner is None:
            raise ProtocolError("CHUNK before HELLO")
        return self._owner.chunk_target(self, stream, length)

    def on_chunk(self, stream: int, length: int) -> None:
        assert self._owner is not None
        self._owner.on_chunk(self, stream, length)

    @property
    def closed(self) -> bool:
        """True if the connection has ended or is about to end: nothing more is read."""
        return bool(self._why) or self._abort is None

    @property
    def why(self) -> str:
        """The reason if the connection was closed by this side; otherwise ""."""
        return self._why

    @property
    def silent(self) -> bool:
        """True if the peer has sent nothing, and this side has not closed the connection."""
        return self._silent and not self._why

    # Called by the session.
    def refuse(self, error: ProtocolError) -> None:
        """Ends the connection, and sends the reason to the peer."""
        self.refused = True
        self.send(Ended(False, 0, str(error)[:_MAX_REASON]))
        self.close(f"protocol error: {error}")

    def send(self, frame: Frame, stream: int = 0) -> None:
        """Sends a control frame. Drops it if the connection is gone; on_lost() reports that."""
        self.write(frames.encode(frame, stream))

    @property
    def writable(self) -> bool:
        """True if the kernel has taken everything that was written."""
        return self._writer is not None and self._writer.unsent == 0

    def write(self, *parts: bytes | memoryview) -> None:
        """Writes the parts in order; they must not change until they are sent."""
        if self._writer is None or self._why:
            return
        self._writer.write(*parts)
        if self._writer is not None and self._writer.unsent > _MAX_UNSENT:
            self.close("the peer does not read")

    def close(self, why: str) -> None:
        """Ends the connection. The owner is notified later, with the reason."""
        if self._why or self._abort is None:
            return
        self._why = why
        self._abort()

    def _greet(self, frame: Frame) -> None:
        if not isinstance(frame, Hello):
            raise ProtocolError(f"{type(frame).__name__} before HELLO")
        if frame.magic != frames.MAGIC:
            raise ProtocolError("HELLO.magic: the peer is not a bridge")
        if frame.version != frames.VERSION:
            raise ProtocolError(
                f"HELLO.version: {frame.version}; this bridge speaks {frames.VERSION}"
            )
        if frame.lane not in (EXPRESS, BULK):
            raise ProtocolError(f"HELLO.lane: {frame.lane!r}")
        self.name = frame.lane
        self.reads_zstd = ZSTD in frame.codecs
        self._owner = self._greeter(self, frame)

    def _watch(self) -> None:
        now = self._loop.time()
        if now - self._heard > SILENCE:
            return self.close(f"no bytes were received for {SILENCE:.0f} s")
        if self._owner is not None:
            self.send(Ping(time.monotonic_ns()))
        self._watching = self._loop.call_later(PING_EVERY, self._watch)
