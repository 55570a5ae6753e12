"""An open page: its tiles, its commands, and the frames to send to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from tensorbus._view.channel import Channel

MAX_TILES = 64
OVERVIEW = 0
"""The tile that shows the domain."""


class Open(msgspec.Struct, tag="open", forbid_unknown_fields=True):
    """The page has opened a tile, or selected another view in an open tile."""

    tile: int
    topic: str
    view: str = ""


class Close(msgspec.Struct, tag="close", forbid_unknown_fields=True):
    """The page has closed a tile."""

    tile: int


class Drawn(msgspec.Struct, tag="drawn", forbid_unknown_fields=True):
    """The page has drawn the last frame of a tile, and can take the next frame."""

    tile: int


_decoder = msgspec.json.Decoder(Open | Close | Drawn)


class InvalidCommand(ValueError):
    """The page sent a malformed or forbidden command."""


class Socket(Protocol):
    """The part of a websocket that a page uses."""

    async def send_bytes(self, data: bytes) -> None: ...


class _Tile:
    """A tile of a page. It keeps the newest frame until the page can take it."""

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
        """The frame to send now; None while the page draws, or if there is no new frame."""
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
    """A page with its websocket. A slow page gets fewer frames; no task waits for it.

    Args:
        overview: the channel of the domain's overview.
        feed: returns the channel of a topic and a view.
    """

    def __init__(self, overview: Channel, feed: Callable[[str, str], Channel]) -> None:
        self._feed = feed
        self._changed = asyncio.Event()
        self._tiles = {OVERVIEW: _Tile(overview, self._changed)}

    @property
    def dropped(self) -> int:
        """Frames of open tiles that were replaced by newer frames before they were sent."""
        return sum(tile.dropped for tile in self._tiles.values())

    async def handle_command(self, text: str) -> None:
        """Runs a command of the page.

        Raises:
            InvalidCommand: the command is malformed, or exceeds a limit.
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
        elif len(self._tiles) > MAX_TILES:
            raise InvalidCommand(f"more than {MAX_TILES} tiles")
        else:
            self._tiles[command.tile] = _Tile(channel, self._changed)

    async def send(self, socket: Socket) -> None:
        """Sends frames until it is cancelled; one frame of each tile at a time."""
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
