"""The same service without handles: tensors are pickled and sent over TCP. For comparison."""

from __future__ import annotations

import pickle
import socket
import sys
from typing import Any


def send(connection: socket.socket, value: Any) -> None:
    body = pickle.dumps(value, protocol=5)
    connection.sendall(len(body).to_bytes(8, "little"))
    connection.sendall(body)


def receive(connection: socket.socket) -> Any:
    """What was sent; raises EOFError when there is nothing more."""
    return pickle.loads(_read(connection, int.from_bytes(_read(connection, 8), "little")))


def connected(connection: socket.socket) -> socket.socket:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _read(connection: socket.socket, count: int) -> bytearray:
    body = bytearray(count)
    rest = memoryview(body)
    while rest:
        received = connection.recv_into(rest)
        if received == 0:
            raise EOFError
        rest = rest[received:]
    return body


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        client = connected(listener.accept()[0])
        try:
            while True:
                send(client, receive(client) * 2)
        except EOFError:
            sys.exit()
