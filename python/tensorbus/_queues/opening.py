"""Opening in an event loop: a thread tries repeatedly, and ends soon after a cancellation."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeVar

from tensorbus._base.errors import OutOfMemory, Timeout

Opened = TypeVar("Opened")

_STEP = 0.5  # seconds after which the thread checks for a cancellation
_CONNECT_TIMEOUT = 5.0  # seconds to wait for room for a connection if there is no timeout


async def open_in_thread(open_once: Callable[[float], Opened], timeout: float | None) -> Opened:
    """Calls `open_once` with a timeout in seconds until it returns.

    Args:
        open_once: raises `Timeout` if there is nothing to open yet.
        timeout: seconds for all calls; `None` for no limit.

    Raises:
        Timeout, OutOfMemory: the last call before the timeout raised it.
    """
    opened: Future[Opened] = Future()
    began = time.monotonic()
    deadline = math.inf if timeout is None else began + timeout
    room_deadline = began + _CONNECT_TIMEOUT if timeout is None else deadline

    def try_open() -> Opened:
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            try:
                return open_once(min(left, _STEP))
            except Timeout:
                if left <= _STEP or opened.cancelled():
                    raise
            except OutOfMemory:
                if time.monotonic() + _STEP >= room_deadline or opened.cancelled():
                    raise

    def run() -> None:
        with suppress(InvalidStateError):  # cancelled
            try:
                opened.set_result(try_open())
            except BaseException as error:
                opened.set_exception(error)

    threading.Thread(target=run, name="tensorbus-open", daemon=True).start()
    return await asyncio.wrap_future(opened)
