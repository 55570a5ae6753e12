"""Cortex's executors: `func` and `rate_hz` in this order, arguments, and running again."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.harness import PATIENCE, eventually
from support.loops import started
from support.node_runs import becomes
from tensorbus.cortex.core.executor import (
    AsyncExecutor,
    BaseAsyncExecutor,
    RateExecutor,
    SyncRateExecutor,
)

Made = Callable[[Any], Any]

ASYNC: dict[str, Made] = {
    "as fast as it goes": AsyncExecutor,
    "positional": lambda func: RateExecutor(func, 200.0),
    "by keyword": lambda func: RateExecutor(func=func, rate_hz=200.0),
}


@pytest.mark.parametrize("kind", ASYNC)
def test_an_executor_hands_arguments_on_and_runs_again_after_a_stop(kind: str) -> None:
    async def main() -> None:
        calls: list[Any] = []

        async def work(*args: Any, **kwargs: Any) -> None:
            assert executor.running
            calls.append((args, kwargs))

        executor = ASYNC[kind](work)
        for count in range(2):
            assert not executor.running
            calls.clear()
            running = await asyncio.wait_for(begun(executor.run(1, key=count)), PATIENCE)
            await becomes(lambda: len(calls) > 2)
            executor.stop()
            await asyncio.wait_for(running, PATIENCE)
            assert not executor.running
            assert calls[0] == ((1,), {"key": count})

    async def begun(run: Any) -> asyncio.Task[None]:
        return await started(run)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ASYNC)
def test_a_cancelled_executor_returns(kind: str) -> None:
    async def main() -> None:
        async def work() -> None:
            pass

        executor = ASYNC[kind](work)
        running = await started(executor.run())
        running.cancel()
        await running
        assert not executor.running

    asyncio.run(main())


def test_the_first_call_comes_at_once_and_the_next_after_an_interval() -> None:
    begin = time.monotonic()
    at: list[float] = []

    def work() -> None:
        at.append(time.monotonic() - begin)
        if len(at) == 2:
            executor.stop()

    executor = SyncRateExecutor(work, rate_hz=2.0)
    assert executor.interval == 0.5
    executor.run()
    assert at[0] < 0.5 <= at[1]

    async def main() -> None:
        called = asyncio.Event()

        async def once() -> None:
            called.set()

        slow = RateExecutor(once, 1e-3)
        assert slow.interval == 1000
        running = await asyncio.wait_for(started_with(slow), PATIENCE)
        await asyncio.wait_for(called.wait(), PATIENCE)
        slow.stop()
        await asyncio.wait_for(running, PATIENCE)

    async def started_with(executor: RateExecutor) -> asyncio.Task[None]:
        return await started(executor.run())

    asyncio.run(main())


def test_a_synchronous_executor_is_stopped_from_another_thread_and_runs_again() -> None:
    calls: list[Any] = []

    def work(*args: Any, **kwargs: Any) -> None:
        calls.append((args, kwargs, executor.running))

    executor = SyncRateExecutor(work, 200.0)
    for number in range(2):
        calls.clear()
        thread = threading.Thread(target=executor.run, args=("arg",), kwargs={"n": number})
        thread.start()
        eventually(lambda: len(calls) > 2)
        executor.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not executor.running
        assert set(map(repr, calls)) == {repr((("arg",), {"n": number}, True))}


def test_an_exception_is_logged_under_the_name_of_the_function(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing() -> None:
        calls.append(1)
        if len(calls) == 3:
            executor.stop()
        raise ValueError("boom")

    calls: list[int] = []
    executor = SyncRateExecutor(failing, 1000.0)
    with caplog.at_level(logging.ERROR):
        executor.run()
    assert len(calls) == 3
    assert "failing raised ValueError" in caplog.text


def test_the_base_is_abstract_and_its_run_starts_and_stops() -> None:
    with pytest.raises(TypeError):
        BaseAsyncExecutor(print)  # type: ignore[abstract]

    class Twice(BaseAsyncExecutor):
        async def _run_impl(self, *args: Any, **kwargs: Any) -> None:
            assert self.running
            for _ in range(2):
                await self.func(*args, **kwargs)

    got: list[int] = []

    async def work(number: int) -> None:
        got.append(number)

    executor = Twice(work)
    asyncio.run(executor.run(7))
    assert got == [7, 7]
    assert not executor.running


@pytest.mark.parametrize("kind", ASYNC)
def test_one_stop_ends_all_runs_of_an_executor(kind: str) -> None:
    async def main() -> None:
        async def work() -> None:
            calls.add(asyncio.current_task())

        calls: set[Any] = set()
        executor = ASYNC[kind](work)
        runs = {await started(executor.run()) for _ in range(2)}
        await becomes(lambda: calls == runs)
        executor.stop()
        await asyncio.wait_for(asyncio.gather(*runs), PATIENCE)
        assert not executor.running

    asyncio.run(main())


def test_one_stop_ends_all_runs_of_a_synchronous_executor_that_was_started_again() -> None:
    calls: set[Any] = set()
    executor = SyncRateExecutor(lambda: calls.add(threading.current_thread()), 200.0)
    assert not executor.running
    threads = {threading.Thread(target=executor.run, daemon=True) for _ in range(2)}
    for thread in threads:
        thread.start()
    eventually(lambda: calls == threads)
    executor.start()
    assert executor.running
    executor.stop()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.parametrize("made", [RateExecutor, SyncRateExecutor])
def test_a_rate_is_a_number_above_0(made: Any) -> None:
    for rate in (0, -1, float("nan"), float("inf"), "50"):
        with pytest.raises(ValueError, match=r"rate_hz=.*expected a number above 0"):
            made(lambda: None, rate)
    np = pytest.importorskip("numpy")
    assert made(lambda: None, np.float32(50)).interval == made(lambda: None, np.int64(50)).interval
