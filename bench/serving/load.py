"""HTTP clients on a Unix socket: each sends its request again when it has the answer."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


class Load:
    """Clients in threads, each with a connection that stays open."""

    def __init__(self, place: Path, body: bytes, clients: int) -> None:
        head = f"POST /classify HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
        self._request = head.encode() + body
        self._connections = []
        for _ in range(clients):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(place))
            self._connections.append(connection)

    def ns_each(self, count: int) -> float:
        """Nanoseconds for each request, of which every client sends so many."""
        clients = len(self._connections)
        with ThreadPoolExecutor(clients) as threads:
            begin = time.perf_counter_ns()
            for _ in threads.map(self._ask, self._connections, [count] * clients):
                pass
            return (time.perf_counter_ns() - begin) / (count * clients)

    def _ask(self, connection: socket.socket, count: int) -> None:
        for _ in range(count):
            connection.sendall(self._request)
            head, _, rest = self._received(connection).partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            while len(rest) < length:
                rest += connection.recv(65536)
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"a request failed: {head.decode()}")

    def _received(self, connection: socket.socket) -> bytes:
        received = b""
        while b"\r\n\r\n" not in received:
            part = connection.recv(65536)
            if not part:
                raise RuntimeError("the web server has closed a connection")
            received += part
        return received

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
