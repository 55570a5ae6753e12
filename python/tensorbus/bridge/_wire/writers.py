"""Non-blocking writers for connections; TCP is written without a copy in user space."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Protocol

_MAX_AT_ONCE = 64  # parts per system call


class Writer(Protocol):
    """The writer of a lane."""

    @property
    def unsent(self) -> int:
        """The number of bytes that were not sent yet."""
        ...

    def write(self, *parts: bytes | memoryview) -> None: ...
    def close(self) -> None: ...


class TransportWriter:
    """The writer for TLS: asyncio encrypts, which copies.

    write() passes all parts in one call. Between two calls the event loop could call the lane,
    which would write other frames between the parts.
    """

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport

    @property
    def unsent(self) -> int:
        return self._transport.get_write_buffer_size()

    def write(self, *parts: bytes | memoryview) -> None:
        self._transport.writelines(parts)

    def close(self) -> None:
        pass


class SocketWriter:
    """The writer for TCP: bytes that the kernel does not take at once stay in place, uncopied.

    Args:
        descriptor: of the connection. The writer duplicates it, because an event loop allows one
            user per descriptor.
        on_empty: called when the kernel has taken all bytes that waited.
        on_error: called with the text of the connection's error.
    """

    def __init__(
        self,
        descriptor: int,
        on_empty: Callable[[], None],
        on_error: Callable[[str], None],
    ) -> None:
        self._descriptor = os.dup(descriptor)
        self._on_empty = on_empty
        self._on_error = on_error
        self._parts: deque[memoryview] = deque()
        self._loop = asyncio.get_running_loop()
        self.unsent = 0

    def write(self, *parts: bytes | memoryview) -> None:
        if self._descriptor < 0:
            return
        waits = bool(self._parts)
        for part in parts:
            self._parts.append(memoryview(part))
            self.unsent += len(part)
        if waits or self._send():
            return
        try:
            self._loop.add_writer(self._descriptor, self._go_on)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        self._parts.clear()
        self.unsent = 0

    def _go_on(self) -> None:
        if self._send():
            self._loop.remove_writer(self._descriptor)
            self._on_empty()

    def _fail(self, error: OSError) -> None:
        self._parts.clear()
        self._on_error(str(error))

    # Returns True if nothing waits any more.
    def _send(self) -> bool:
        while self._parts:
            parts = [self._parts[i] for i in range(min(len(self._parts), _MAX_AT_ONCE))]
            try:
                sent = os.writev(self._descriptor, parts)
            except BlockingIOError:
                return False
            except OSError as error:
                self._fail(error)
                return True
            self.unsent -= sent
            while sent:
                first = self._parts[0]
                if sent < len(first):
                    self._parts[0] = first[sent:]
                    break
                sent -= len(self._parts.popleft())
        return True
