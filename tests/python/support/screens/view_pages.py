"""The server of `tensorbus view`, and a page that is no browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from support.harness import PATIENCE
from support.inspections import inspection
from tensorbus._inspection.report import Inspection
from tensorbus._view.address import Address
from tensorbus._view.server import Server

DOMAIN = 0  # the tile that shows the domain


@dataclass
class Frame:
    tile: int
    header: dict[str, Any]
    payload: bytes


def decoded(message: bytes) -> Frame:
    """What a websocket brings."""
    length = int.from_bytes(message[4:8], "little")
    header = json.loads(message[8 : 8 + length])
    return Frame(int.from_bytes(message[:4], "little"), header, message[8 + length :])


class FakePage:
    """Asks and answers as the page does, in its time."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket

    async def open(self, tile: int, topic: str, view: str = "") -> None:
        await self.tell(type="open", tile=tile, topic=topic, view=view)

    async def tell(self, **command: Any) -> None:
        await self.socket.send_json(command)

    async def next(self, tile: int) -> Frame:
        """The next frame of a tile; it is drawn, and so are those of others that come before."""
        while True:
            frame = await self.peek()
            await self.tell(type="drawn", tile=frame.tile)
            if frame.tile == tile:
                return frame

    async def peek(self) -> Frame:
        """The next frame; it is not drawn yet."""
        message = await asyncio.wait_for(self.socket.receive(), PATIENCE)
        assert message.type is WSMsgType.BINARY, message
        return decoded(message.data)

    async def closed(self) -> int | None:
        """Reads until the server has closed it; the code."""
        while not self.socket.closed:
            await asyncio.wait_for(self.socket.receive(), PATIENCE)
        return self.socket.close_code


@contextlib.asynccontextmanager
async def serving(source: Callable[[], Inspection] = inspection) -> AsyncIterator[Server]:
    """The server, of the default domain and any port."""
    server = Server(source, None, Address())
    task = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def page(server: Server) -> AsyncIterator[FakePage]:
    async with ClientSession() as client, client.ws_connect(f"{server.url}live") as socket:
        yield FakePage(socket)


async def until(condition: Callable[[], object]) -> None:
    """Gives the event loop turns until something is so."""

    async def look() -> None:
        while not condition():
            await asyncio.sleep(0.002)

    await asyncio.wait_for(look(), PATIENCE)
