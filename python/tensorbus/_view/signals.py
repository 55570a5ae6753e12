"""Runs until a signal says that it is enough."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from tensorbus._base.signals import ending_signals


def until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Runs it in an event loop, and cancels it on SIGINT, SIGTERM and SIGHUP.

    No signal handler raises, so a signal is never lost in a `__del__` or leaves a file behind.
    """
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_run(work))


async def _run(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in ending_signals():
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await work
