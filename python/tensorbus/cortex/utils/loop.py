"""Running a program's coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tensorbus.nodes import run as run_ours

__all__ = ["run"]

T = TypeVar("T")


def run(coro: Coroutine[Any, Any, T], *, debug: bool = False) -> T:
    """See `tensorbus.run`. A cancelled `Node.run` returns, so that Ctrl-C ends it without an error.

    Args:
        coro: the program.
        debug: use the debug mode of the event loop.

    >>> async def main():
    ...     return 7
    >>> run(main())
    7
    """
    return run_ours(_with_debug(coro) if debug else coro)


async def _with_debug(coro: Coroutine[Any, Any, T]) -> T:
    asyncio.get_running_loop().set_debug(True)
    return await coro
