"""Pipes whose ends send tensors by reference."""

from __future__ import annotations

import multiprocessing.connection
import os
import socket
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from tensorbus.multiprocessing import reductions

__all__ = ["Client", "Connection", "Listener", "Pipe", "wait"]


class Connection(multiprocessing.connection.Connection):
    """One end of a pipe; all else is as in the standard library."""

    def send(self, obj: Any) -> None:
        """Sends any picklable object; its tensors and arrays go by reference."""
        self.send_bytes(reductions.dumps(obj))


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
        if same.family != socket.AF_UNIX:
            return plain
        plain.close()
        return Connection(same.detach())


def Pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    """Two connected ends. Of two that are not duplex, the first receives and the second sends."""
    if duplex:
        first, second = socket.socketpair()
        return Connection(first.detach()), Connection(second.detach())
    reader, writer = os.pipe()
    return Connection(reader, writable=False), Connection(writer, readable=False)


def _reduce(connection: Connection) -> Any:
    parts = DupFd(connection.fileno()), connection.readable, connection.writable
    return _rebuild, parts


def _rebuild(descriptor: Any, readable: bool, writable: bool) -> Connection:
    return Connection(descriptor.detach(), readable, writable)


ForkingPickler.register(Connection, _reduce)
