"""Frames for the page, and channels, which produce frames while there are listeners."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from msgspec import json

logger = logging.getLogger("tensorbus.view")

Take = Callable[[bytes], None]
"""A listener: it is called with each new frame, and keeps the newest."""


@dataclass
class Frame:
    """A JSON object, with the pixels, points or values that the page draws."""

    header: dict[str, Any]
    payload: bytes = b""

    def encoded(self) -> bytes:
        """The length of the JSON as u32 little-endian, the JSON, and the payload.

        NaN and infinity become null.
        """
        header = json.encode(self.header)
        return len(header).to_bytes(4, "little") + header + self.payload


class Channel:
    """Runs a producer while there are listeners, and passes its frames to all of them.

    Args:
        produce: calls its argument with each frame that it makes, until it is cancelled.
    """

    def __init__(self, produce: Callable[[Take], Awaitable[None]]) -> None:
        self._produce = produce
        self._listeners: set[Take] = set()
        self._task: asyncio.Task[None] | None = None
        self._newest: bytes | None = None

    @property
    def listeners(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    def join(self, take: Take) -> None:
        """Adds a listener. It gets the newest frame at once, if there is one."""
        self._listeners.add(take)
        if self._newest is not None:
            take(self._newest)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def leave(self, take: Take) -> None:
        """Removes a listener. After the last listener, waits for the producer's end."""
        self._listeners.discard(take)
        if self._listeners or self._task is None:
            return
        task, self._task, self._newest = self._task, None, None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _run(self) -> None:
        try:
            await self._produce(self._give)
        except Exception:
            logger.exception("a tile has ended")

    def _give(self, frame: bytes) -> None:
        self._newest = frame
        for take in tuple(self._listeners):
            take(frame)
