"""`Again`: what failed for want of something is called again, in every event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from support.harness import PATIENCE
from tensorbus.bridge._shortage import Again

uvloop = pytest.importorskip("uvloop")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_call_that_is_due_at_once_is_not_put_off(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        called = asyncio.Event()
        again = Again("a test", called.set)
        again.after(0)
        again.within(10 * PATIENCE)
        await asyncio.wait_for(called.wait(), PATIENCE)
        assert not again.due

    loop = new_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_call_that_is_due_later_comes_earlier_if_it_is_asked_for(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        called = asyncio.Event()
        again = Again("a test", called.set)
        again.after(10 * PATIENCE)
        again.within(0)
        await asyncio.wait_for(called.wait(), PATIENCE)

    loop = new_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
