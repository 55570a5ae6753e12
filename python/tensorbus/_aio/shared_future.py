"""Waiting in an event loop for a future of a thread, for which other tasks may wait, too."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import Future
from contextlib import suppress
from typing import Any


async def wait_for_shared(future: Future[Any], timeout: float = math.inf) -> None:
    """Waits until the future is done, for `timeout` seconds at most.

    A cancellation of the task does not reach the future.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop was closed before its tasks ended
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(wake)
    # Not wait_for(), which may swallow a cancellation in Python 3.11.
    timer = None if math.isinf(timeout) else loop.call_later(timeout, done.set)
    try:
        await done.wait()
    finally:
        if timer is not None:
            timer.cancel()
