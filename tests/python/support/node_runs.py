"""Nodes that run for as long as a test needs them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import tensorbus as tb
from support.harness import PATIENCE
from support.loops import turns


@asynccontextmanager
async def running(*nodes: tb.Node) -> AsyncIterator[None]:
    """They run until the end of the block, and end well."""
    tasks = [asyncio.ensure_future(node.run()) for node in nodes]
    await turns()
    try:
        yield
    finally:
        for node in nodes:
            await node.close()
        await asyncio.gather(*tasks)


async def becomes(condition: Callable[[], object]) -> None:
    """Waits in an event loop until something is so, which the loop is not told of."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "never so"
        await asyncio.sleep(0.001)


def connected(publisher: tb.Publisher, count: int = 1) -> tb.Publisher:
    assert publisher.wait_for_subscribers(count, timeout=PATIENCE)
    return publisher
