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
    """What is the same there: `families`, `answer_challenge`, ..."""
    return getattr(multiprocessing.connection, name)


class Connection(multiprocessing.connection.Connection):
    """One end of a pipe; all else is as in the standard library."""

    _handle: int | None
    carrier = 0  # what the other end reads; 0: not known

    def send(self, obj: Any) -> None:
        """Sends any picklable object; its tensors and large arrays go by reference."""
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
    """See `multiprocessing.connection.Listener`; what it accepts is a `Connection` of ours."""

    def accept(self) -> Any:
        """The connection to whoever called."""
        return _ours(super().accept())


def Client(*args: Any, **kwargs: Any) -> Any:
    """See `multiprocessing.connection.Client`; the same `Connection`."""
    return _ours(multiprocessing.connection.Client(*args, **kwargs))


def _ours(plain: Any) -> Any:
    """A connection within this machine: who is on another one cannot have what is shared here."""
    if type(plain) is not multiprocessing.connection.Connection:
        return plain
    with socket.socket(fileno=os.dup(plain.fileno())) as same:
        same.setblocking(True)  # a default timeout of the program made both non-blocking
        if same.family != socket.AF_UNIX:
            return plain
        plain.close()
        return Connection(same.detach())


def Pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    """Two connected ends. Of two that are not duplex, the first receives and the second sends."""
    if duplex:
        sockets = socket.socketpair()
        for end in sockets:
            end.setblocking(True)  # not by the program's default timeout
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
