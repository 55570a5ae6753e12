"""Pipes whose ends send tensors by reference."""

from __future__ import annotations

import multiprocessing.connection
import os
import socket
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from tensorbus.multiprocessing import _carriers, reductions

__all__ = ["Client", "Connection", "Listener", "Pipe", "wait"]


def __getattr__(name: str) -> Any:
    """Other names of the standard library's module: `families`, `answer_challenge`, ..."""
    return getattr(multiprocessing.connection, name)


class Connection(multiprocessing.connection.Connection):
    """One end of a pipe, like the standard library's. It sends tensors by reference."""

    _handle: int | None
    carrier = 0  # the carrier that the other end reads; 0: unknown

    def send(self, obj: Any) -> None:
        """Sends any object that can be pickled; its tensors and large arrays go by reference."""
        dumped = reductions.Dumped(obj, self.carrier)
        try:
            self.send_bytes(dumped.pickled)
        except OSError:
            dumped.withdraw()
            raise

    def close(self) -> None:
        """See `multiprocessing.connection.Connection.close`."""
        super().close()
        _carriers.closed_one()

    def __del__(self) -> None:
        if self._handle is not None:
            self.close()


class Listener(multiprocessing.connection.Listener):
    """See `multiprocessing.connection.Listener`. `accept` returns a `Connection` of this module."""

    def accept(self) -> Any:
        """Waits for a client and returns the connection to it."""
        return _ours(super().accept())


def Client(*args: Any, **kwargs: Any) -> Any:
    """See `multiprocessing.connection.Client`. Returns a `Connection` of this module."""
    return _ours(multiprocessing.connection.Client(*args, **kwargs))


def _ours(plain: Any) -> Any:
    """A `Connection` of this module if the plain connection is local, else the plain connection."""
    if type(plain) is not multiprocessing.connection.Connection:
        return plain
    with socket.socket(fileno=os.dup(plain.fileno())) as same:
        same.setblocking(True)  # with socket.setdefaulttimeout both descriptors are non-blocking
        if same.family != socket.AF_UNIX:
            return plain
        plain.close()
        return Connection(same.detach())


def Pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    """Two connected ends. Without `duplex` the first only receives and the second only sends."""
    if duplex:
        sockets = socket.socketpair()
        for end in sockets:
            end.setblocking(True)  # socket.setdefaulttimeout may have made it non-blocking
        first, second = (Connection(end.detach()) for end in sockets)
        first.carrier = _carriers.inode_of(second.fileno())
        second.carrier = _carriers.inode_of(first.fileno())
        return first, second
    reader, writer = os.pipe()
    receives, sends = Connection(reader, writable=False), Connection(writer, readable=False)
    sends.carrier = _carriers.inode_of(reader)
    return receives, sends


def _reduce(connection: Connection) -> Any:
    modes = connection.readable, connection.writable
    return _rebuild, (DupFd(connection.fileno()), *modes, connection.carrier)


def _rebuild(descriptor: Any, readable: bool, writable: bool, carrier: int) -> Connection:
    rebuilt = Connection(descriptor.detach(), readable, writable)
    rebuilt.carrier = carrier
    return rebuilt


ForkingPickler.register(Connection, _reduce)
