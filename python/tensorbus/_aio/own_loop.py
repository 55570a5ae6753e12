"""A new event loop for a program."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tensorbus._base.signals import ending_signals


@contextmanager
def own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A new event loop for this thread: uvloop's if that is installed.

    At the end of the context its tasks are cancelled and awaited, and it is closed.
    """
    loop = _new_loop()
    try:
        asyncio.set_event_loop(loop)
        yield loop
    finally:
        _close(loop)


def run_until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine in a new loop, and cancels it on SIGINT, SIGTERM and SIGHUP.

    The signal handlers of the loop raise nothing, so no exception is lost in a `__del__`.
    """
    with own_loop() as loop, suppress(asyncio.CancelledError):
        task = loop.create_task(work)
        for number in ending_signals():
            loop.add_signal_handler(number, task.cancel)
        loop.run_until_complete(task)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _close(loop: asyncio.AbstractEventLoop) -> None:
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
