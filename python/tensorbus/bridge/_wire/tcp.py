"""Lanes over TCP, with TLS if certificates are configured."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tensorbus.bridge._shortage import Backoff
from tensorbus.bridge._wire.addresses import host_and_port
from tensorbus.bridge._wire.lane import SILENCE, Lane

_MIN_TIME = 1.0  # min. seconds to wait for each of several addresses

# Says more than the error: asyncio sends no alert when it refuses a certificate.
CLOSED_IN_TLS = (
    "the peer has closed the connection during the TLS handshake; its log says why (it may have "
    "refused this machine's certificate)"
)


class TcpNetwork:
    """Listens, accepts and connects. In the event loop of its bridge.

    Args:
        server, client: contexts of TLS; None: connections are not encrypted.
    """

    def __init__(self, server: ssl.SSLContext | None, client: ssl.SSLContext | None) -> None:
        self._server = server
        self._client = client
        self._listeners: list[socket.socket] = []

    async def listen(self, addresses: Sequence[str]) -> None:
        """Listens on these addresses, and on all addresses of a name.

        Raises:
            OSError: an address is in use, or is not an address of this host.
        """
        for address in addresses:
            host, port = host_and_port(address)
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, _, _, _, where in dict.fromkeys(found):
                self._listeners.append(socket.create_server(where, family=family))
                self._listeners[-1].setblocking(False)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    async def accept_all(
        self,
        room: Callable[[], Awaitable[None]],
        make: Callable[[], Lane],
        refused: Callable[[Lane, str, str], None],
    ) -> None:
        """Accepts connections until cancelled.

        Args:
            room: waits until one more connection may be accepted.
            make: returns the lane for a connection.
            refused: called with the lane, the address and the reason if a connection fails before
                it is established, for example in TLS.
        """
        tasks = [
            asyncio.create_task(self._accept_from(listener, room, make, refused))
            for listener in self._listeners
        ]
        try:
            await asyncio.gather(*tasks)
            await asyncio.get_running_loop().create_future()  # without a listener: waits for ever
        finally:
            for task in tasks:
                task.cancel()

    async def dial(self, address: str, _connection: str, _name: str, lane: Lane) -> None:
        """Connects a lane. If a name has several addresses, uses the first that replies.

        Raises:
            OSError, asyncio.TimeoutError: no address replies.
        """
        host, port = host_and_port(address)
        connection = await _connected(host, port)
        tls: dict[str, Any] = {}
        if self._client is not None:
            tls = {"ssl": self._client, "server_hostname": host}
        try:
            await asyncio.wait_for(
                asyncio.get_running_loop().create_connection(lambda: lane, sock=connection, **tls),
                SILENCE,
            )
        except BaseException:
            connection.close()
            raise

    async def _accept_from(
        self,
        listener: socket.socket,
        room: Callable[[], Awaitable[None]],
        make: Callable[[], Lane],
        refused: Callable[[Lane, str, str], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        accepting: set[asyncio.Task[None]] = set()
        backoff = Backoff("no connection is accepted")
        try:
            while True:
                await room()
                try:
                    connection, address = await loop.sock_accept(listener)
                except (OSError, MemoryError) as error:  # also if a waiting connection has ended
                    await asyncio.sleep(backoff.failed(error))
                    continue
                backoff.succeeded()
                text = f"{address[0]}:{address[1]}"
                lane = make()
                task = loop.create_task(self._accept(connection, text, lane, refused))
                lane.connecting(task.cancel)
                accepting.add(task)
                task.add_done_callback(accepting.discard)
        finally:
            for task in accepting:
                task.cancel()

    # Not `create_server`: with it asyncio would not report why a certificate was refused.
    async def _accept(
        self,
        connection: socket.socket,
        address: str,
        lane: Lane,
        refused: Callable[[Lane, str, str], None],
    ) -> None:
        tls: dict[str, Any] = {}
        if self._server is not None:
            tls = {"ssl": self._server, "ssl_handshake_timeout": SILENCE}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: lane, connection, **tls
            )
        except (OSError, MemoryError, asyncio.CancelledError) as error:
            connection.close()
            ended = isinstance(error, asyncio.CancelledError)
            why = "the bridge was stopped" if ended else str(error) or CLOSED_IN_TLS
            refused(lane, address, lane.why or why)


# Each address gets its part of the time, so that all are tried even if some do not reply.
async def _connected(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    resolving = loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found = dict.fromkeys(await asyncio.wait_for(resolving, SILENCE))
    error: Exception = OSError(f"{host} has no address")
    for family, kind, protocol, _, where in found:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            connecting = loop.sock_connect(connection, where)
            await asyncio.wait_for(connecting, max(SILENCE / len(found), _MIN_TIME))
            return connection
        except (OSError, asyncio.TimeoutError) as failed:
            connection.close()
            error = failed
        except BaseException:
            connection.close()
            raise
    raise error
