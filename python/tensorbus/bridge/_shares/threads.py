"""Threads for blocking calls of the core, which may wait for a stopped process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from tensorbus._base.errors import OutOfMemory

Result = TypeVar("Result")


async def in_a_thread(function: Callable[[], Result]) -> Result:
    """Calls a blocking function in its own thread. The end of the bridge does not wait for it.

    Raises:
        OutOfMemory: the thread cannot be started.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(settle, result, error)

    try:
        threading.Thread(target=run, name="tensorbus-asks", daemon=True).start()
    except RuntimeError as error:
        raise OutOfMemory(f"{error}: RLIMIT_NPROC or pids.max") from None
    return await future
