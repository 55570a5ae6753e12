"""Opening by a thread that tries repeatedly, and ends soon after its caller has given up."""

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
Result = TypeVar("Result")

_STEP = 0.5  # seconds after which the thread checks whether its caller has given up
_CONNECT_TIMEOUT = 5.0  # seconds to wait for room for a connection if there is no timeout


def open_in_steps(
    open_once: Callable[[float], Opened], timeout: float | None, given_up: Callable[[], bool]
) -> Opened:
    """Calls `open_once` with a timeout in seconds until it returns.

    Args:
        open_once: raises `Timeout` if there is nothing to open yet.
        timeout: seconds for all calls; `None` for no limit.
        given_up: whether no caller waits any longer.

    Raises:
        Timeout, OutOfMemory: the last call before the timeout, or before `given_up`, raised it.
    """
    began = time.monotonic()
    deadline = math.inf if timeout is None else began + timeout
    room_deadline = began + _CONNECT_TIMEOUT if timeout is None else deadline
    while True:
        left = max(deadline - time.monotonic(), 0.0)
        try:
            return open_once(min(left, _STEP))
        except Timeout:
            if left <= _STEP or given_up():
                raise
        except OutOfMemory:
            if time.monotonic() + _STEP >= room_deadline or given_up():
                raise


async def open_in_thread(open_once: Callable[[float], Opened], timeout: float | None) -> Opened:
    """`open_in_steps` in a thread, until it returns or the task is cancelled."""
    opened: Future[Opened] = Future()
    run_in_thread(opened, lambda: open_in_steps(open_once, timeout, opened.cancelled))
    return await asyncio.wrap_future(opened)


async def called_in_thread(function: Callable[[], Result]) -> Result:
    """The result of a short call that may block."""
    called: Future[Result] = Future()
    run_in_thread(called, function)
    return await asyncio.wrap_future(called)


def run_in_thread(future: Future[Result], function: Callable[[], Result]) -> None:
    """Sets the future to the result of a function, which a thread calls."""

    def run() -> None:
        with suppress(InvalidStateError):  # cancelled
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

    threading.Thread(target=run, name="tensorbus-open", daemon=True).start()
