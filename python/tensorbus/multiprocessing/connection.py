"""Pipes whose ends send tensors by reference."""

from __future__ import annotations

import multiprocessing.connection
import os
import socket
from multiprocessing.connection import Client, Listener, wait
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from tensorbus.multiprocessing import reductions

__all__ = ["Client", "Connection", "Listener", "Pipe", "wait"]


class Connection(multiprocessing.connection.Connection):
    """One end of a pipe; all else is as in the standard library."""

    def send(self, obj: Any) -> None:
        """Sends any picklable object; its tensors and arrays go by reference."""
        self.send_bytes(reductions.dumps(obj))


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
