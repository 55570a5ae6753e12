"""Timers and rate executors: a fixed grid, whatever the callbacks do."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.loops import Run
from support.node_runs import becomes, running


def test_ticks_stay_on_the_grid_whatever_each_of_them_takes(run: Run) -> None:
    """Counted from the end of the last callback each, the last fifty would be 300 ms late."""

    async def main() -> tuple[float, tb.Timer]:
        ticks: list[float] = []

        async def tick() -> None:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.002)

        async with tb.Node("node") as node:
            begin = time.monotonic()
            timer = node.create_timer(0.005, tick)
            async with running(node):
                await becomes(lambda: len(ticks) >= 200)
        grid = [begin + 0.005 * (number + 1) for number in range(200)]
        assert all(tick >= due for tick, due in zip(ticks, grid, strict=False))  # never early
        return min(tick - due for tick, due in zip(ticks[150:], grid[150:], strict=False)), timer

    least_late, timer = run(main())
    assert least_late < 0.3
    assert timer.ticks >= 100


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_ticks_that_were_missed_come_late_or_are_left_out_and_are_counted(
    mode: Any, skip: bool
) -> None:
    """The first tick lasts for more than five periods."""
    counted: list[int] = []

    def tick() -> None:
        counted.append(timer.overruns)
        if len(counted) == 1:
            time.sleep(0.055)
        else:
            node.stop()

    async def main() -> None:
        async with node:
            await node.run()

    node = tb.Node("node")
    timer = node.create_timer(0.01, tick, skip=skip, mode=mode)
    if mode == "async":
        asyncio.run(main())
    else:
        with node:
            assert node.spin(PATIENCE)
    assert counted[0] == 0
    if skip:  # the second tick is one after those that were missed
        assert counted[1] >= 5
    else:  # it is the one that was due
        assert counted[1] == 1


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_timer_whose_callback_raises_goes_on_at_its_pace(
    mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ticks: list[float] = []

    def fail() -> None:
        ticks.append(time.monotonic())
        if len(ticks) == 5:
            node.stop()
        raise ValueError("no")

    async def main() -> None:
        node.create_timer(0.01, fail)
        async with node:
            await node.run()

    node = tb.Node("frail")
    begin = time.monotonic()
    if mode == "async":
        asyncio.run(main())
    else:
        with node:
            node.create_timer(0.01, fail, mode="sync")
            assert node.spin(PATIENCE)
    assert ticks[4] >= begin + 0.05
    assert len(caplog.records) == len(ticks)
    assert "node 'frail', timer " in caplog.records[0].getMessage()
    assert "ValueError: no" in caplog.records[0].getMessage()


def test_a_timer_can_be_cancelled(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            never = node.create_timer(0.001, lambda: None)
            never.cancel()
            ticking = node.create_timer(0.001, lambda: None)
            async with running(node):
                await becomes(lambda: ticking.ticks)
                ticking.cancel()
                ticks = ticking.ticks
                other = node.create_timer(0.001, lambda: None)
                await becomes(lambda: other.ticks > 5)
                assert (ticking.ticks, never.ticks) == (ticks, 0)

    run(main())


@pytest.mark.parametrize("period", [0, -1, float("nan"), float("inf"), "1"])
def test_a_period_is_a_number_above_0(period: Any) -> None:
    with tb.Node("node") as node, pytest.raises(tb.InvalidArgument, match="period="):
        node.create_timer(period, lambda: None, mode="sync")


def test_a_rate_executor_calls_at_a_rate_until_it_is_stopped(run: Run) -> None:
    async def main() -> float:
        async def work() -> None:
            if executor.ticks == 20:
                executor.stop()
            if executor.ticks == 3:
                raise ValueError("three")

        errors: list[BaseException] = []
        executor = tb.RateExecutor(1000, work, on_error=errors.append)
        begin = time.monotonic()
        await executor.run()
        assert executor.ticks == 20
        assert [str(error) for error in errors] == ["three"]
        return time.monotonic() - begin

    assert run(main()) >= 0.02


def test_a_rate_executor_that_waits_is_stopped_at_once() -> None:
    async def main() -> None:
        executor = tb.RateExecutor(1 / PATIENCE / 10, lambda: None)
        task = asyncio.ensure_future(executor.run())
        await asyncio.sleep(0)
        executor.stop()
        await asyncio.wait_for(task, PATIENCE)
        assert executor.ticks == 0

    asyncio.run(main())


def test_a_synchronous_rate_executor_ends_by_its_time_its_event_or_a_stop() -> None:
    event = threading.Event()

    def work() -> None:
        if executor.ticks == 10:
            event.set()

    executor = tb.SyncRateExecutor(1000, work, stop_event=event)
    executor.run(timeout=0.005)
    assert executor.ticks <= 5
    executor.run()
    assert executor.ticks == 10
    with pytest.raises(TypeError, match="coroutine function"):
        tb.SyncRateExecutor(1000, asyncio.sleep)


def test_an_executor_without_a_rate_gives_the_others_a_turn() -> None:
    async def main() -> None:
        executor = tb.AsyncExecutor(lambda: None)
        task = asyncio.ensure_future(executor.run())
        while executor.ticks < 100:
            await asyncio.sleep(0)
        executor.stop()
        await task

    asyncio.run(main())
