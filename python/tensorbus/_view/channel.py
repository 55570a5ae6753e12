"""Something that is made for as long as somebody wants it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger("tensorbus.view")

Take = Callable[[bytes], None]
"""Is given each new frame, and keeps the newest."""


class Channel:
    """Runs a producer while there are listeners, and gives all of them what it makes.

    Args:
        produce: makes frames and passes each to the function that it is given, until it is
            cancelled.
    """

    def __init__(self, produce: Callable[[Take], Awaitable[None]]) -> None:
        self._produce = produce
        self._listeners: set[Take] = set()
        self._task: asyncio.Task[None] | None = None
        self._newest: bytes | None = None

    @property
    def listeners(self) -> int:
        """How many there are."""
        return len(self._listeners)

    def join(self, take: Take) -> None:
        """Adds a listener. It gets the newest frame at once, if there is one."""
        self._listeners.add(take)
        if self._newest is not None:
            take(self._newest)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def leave(self, take: Take) -> None:
        """Removes a listener; without any, the producer has ended when this returns."""
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
