"""`Again`: what failed because of a shortage is called again, in every event loop."""

from __future__ import annotations

import asyncio

import pytest

from support.harness import PATIENCE
from support.loops import Run
from tensorbus.bridge._shortage import Again


@pytest.mark.parametrize(("due", "within"), [(0, 10 * PATIENCE), (10 * PATIENCE, 0)])
def test_of_two_times_the_earlier_one_counts(run: Run, due: float, within: float) -> None:
    async def main() -> None:
        called = asyncio.Event()
        again = Again("a test", called.set)
        again.after(due)
        again.within(within)
        await asyncio.wait_for(called.wait(), PATIENCE)
        assert not again.due

    run(main())
