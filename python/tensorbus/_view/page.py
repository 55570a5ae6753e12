"""One open page: which tiles it has, and what it has still to be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from tensorbus._view.channel import Channel

MOST_TILES = 64
OVERVIEW = 0
"""The tile that shows the domain."""


class Open(msgspec.Struct, tag="open", forbid_unknown_fields=True):
    """The page has a new tile, or another view in an old one."""

    tile: int
    topic: str
    view: str = ""


class Close(msgspec.Struct, tag="close", forbid_unknown_fields=True):
    """The page has closed a tile."""

    tile: int


class Drawn(msgspec.Struct, tag="drawn", forbid_unknown_fields=True):
    """The page has drawn what it was sent for a tile, and can take more."""

    tile: int


_decoder = msgspec.json.Decoder(Open | Close | Drawn)


class InvalidCommand(ValueError):
    """The page sent what no page sends."""


class Socket(Protocol):
    """What it uses of a websocket."""

    async def send_bytes(self, data: bytes) -> None: ...


class _Tile:
    """One tile of a page. It keeps one frame, the newest, until the page can take it."""

    def __init__(self, channel: Channel, changed: asyncio.Event) -> None:
        self._channel = channel
        self._changed = changed
        self._waiting: bytes | None = None
        self._in_flight = False
        self.dropped = 0
        channel.join(self._take)

    def _take(self, frame: bytes) -> None:
        self.dropped += self._waiting is not None
        self._waiting = frame
        self._changed.set()

    def next(self) -> bytes | None:
        """What to send now; None while the page draws, or if there is nothing new."""
        if self._in_flight or self._waiting is None:
            return None
        frame, self._waiting = self._waiting, None
        self._in_flight = True
        return frame

    def drawn(self) -> None:
        self._in_flight = False
        self._changed.set()

    async def show(self, channel: Channel) -> None:
        if channel is not self._channel:
            before, self._channel = self._channel, channel
            self._waiting = None
            channel.join(self._take)
            await before.leave(self._take)

    async def close(self) -> None:
        self._waiting = None
        await self._channel.leave(self._take)


class Page:
    """One websocket. A slow page gets fewer frames; nothing else waits for it.

    Args:
        overview: what is shown of the domain.
        feed: gives the channel of a topic and a view.
    """

    def __init__(self, overview: Channel, feed: Callable[[str, str], Channel]) -> None:
        self._feed = feed
        self._changed = asyncio.Event()
        self._tiles = {OVERVIEW: _Tile(overview, self._changed)}

    @property
    def dropped(self) -> int:
        """Frames of the open tiles for which a newer one came before they could be sent."""
        return sum(tile.dropped for tile in self._tiles.values())

    async def handle_command(self, text: str) -> None:
        """Does what the page asks for.

        Raises:
            InvalidCommand: no page asks for that.
        """
        try:
            command = _decoder.decode(text)
        except msgspec.DecodeError as error:
            raise InvalidCommand(str(error)) from None
        if isinstance(command, Drawn):
            if tile := self._tiles.get(command.tile):
                tile.drawn()
        elif command.tile <= OVERVIEW or command.tile >= 2**32:
            raise InvalidCommand(f"no tile has the number {command.tile}")
        elif isinstance(command, Open):
            await self._open(command)
        elif tile := self._tiles.pop(command.tile, None):
            await tile.close()

    async def _open(self, command: Open) -> None:
        channel = self._feed(command.topic, command.view)
        if tile := self._tiles.get(command.tile):
            await tile.show(channel)
        elif len(self._tiles) > MOST_TILES:
            raise InvalidCommand(f"more than {MOST_TILES} tiles")
        else:
            self._tiles[command.tile] = _Tile(channel, self._changed)

    async def send(self, socket: Socket) -> None:
        """Sends what there is, until it is cancelled: of each tile one frame at a time."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            for number, tile in tuple(self._tiles.items()):
                if (frame := tile.next()) is not None:
                    await socket.send_bytes(number.to_bytes(4, "little") + frame)

    async def close(self) -> None:
        """Leaves all channels."""
        for tile in self._tiles.values():
            await tile.close()
