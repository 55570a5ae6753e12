"""get_many(), open_async(), max_bytes, and a put that waits for memory."""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb

FORK = multiprocessing.get_context("fork")
MIB = 1 << 20


def test_get_many_takes_what_waits_and_waits_for_the_first() -> None:
    with tb.Queue() as numbers:
        with pytest.raises(queue.Empty):
            numbers.get_many(3, timeout=0)
        with pytest.raises(queue.Empty):
            numbers.get_many(3, timeout=0.05)
        for number in range(5):
            numbers.put(number)
        assert numbers.get_many(3, timeout=1) == [0, 1, 2]
        assert numbers.get_many(3) == [3, 4]
        later = threading.Timer(0.1, numbers.put, ["late"])
        later.start()
        assert numbers.get_many(3, timeout=30) == ["late"]
        later.join()
        with pytest.raises(tb.InvalidArgument):
            numbers.get_many(0)
        for _ in range(6):
            numbers.task_done()


class Bad:
    def __reduce__(self) -> tuple[object, ...]:
        return _fail, ()


def _fail() -> None:
    raise ZeroDivisionError


def test_get_many_loses_nothing_when_an_item_cannot_be_unpickled() -> None:
    with tb.Queue() as items:
        for item in (1, 2, Bad(), 3, 4):
            items.put(item)
        assert items.get_many(10) == [1, 2]
        with pytest.raises(ZeroDivisionError):
            items.get_many(10)
        assert items.get_many(1) == [3]
        assert items.get() == 4
        items.put(Bad())
        items.put(5)
        with pytest.raises(ZeroDivisionError):
            items.get_many(2)
        assert items.get() == 5


class Interrupting:
    """Sends SIGINT to the process that unpickles it for the first time."""

    sent = 0

    def __init__(self, *arrays: object) -> None:
        self.arrays = arrays

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if not Interrupting.sent:
            Interrupting.sent = 1
            signal.raise_signal(signal.SIGINT)


def _get_async(items: tb.Queue[Any]) -> list[Any]:
    loop = asyncio.new_event_loop()
    try:
        return [loop.run_until_complete(items.get_async())]
    finally:
        loop.close()


@pytest.mark.parametrize("arrays", [0, 1])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    "take",
    [
        lambda items: items.get_many(9),
        lambda items: [items.get()],
        lambda items: [next(iter(items))],
        _get_async,
    ],
    ids=["get_many", "get", "iterate", "get_async"],
)
def test_ctrl_c_while_an_item_is_unpickled_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
    take: Callable[[tb.Queue[Any]], list[Any]],
    place: int,
    arrays: int,
) -> None:
    monkeypatch.setattr(Interrupting, "sent", 0)
    item = Interrupting(*[np.zeros(3)] * arrays)
    taken: list[Any] = []
    with tb.Queue[Any]() as items:
        items.put_many([*range(place), item, *range(place, 3)])
        while not Interrupting.sent:
            with suppress(KeyboardInterrupt):
                taken += take(items)
        assert len(taken) <= place
        assert items.qsize() == 4 - len(taken)
        while not items.empty():
            taken += take(items)
    assert isinstance(taken.pop(place), Interrupting)
    assert taken == [*range(3)]


def test_open_async_waits_for_a_queue_in_an_event_loop() -> None:
    async def main() -> None:
        with pytest.raises(tb.Timeout):
            await tb.Queue.open_async("later", timeout=0.05)
        opening = asyncio.create_task(tb.Queue.open_async("later"))
        await asyncio.sleep(0.05)
        assert not opening.done()
        with tb.Queue(name="later") as later:
            later.put(1)
            opened = await asyncio.wait_for(opening, 20)
            assert await opened.get_async() == 1
        cancelled = asyncio.create_task(tb.Queue.open_async("never"))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(main())
    deadline = time.monotonic() + 10
    while any(one.name == "tensorbus-open" for one in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_max_bytes_bounds_what_waits() -> None:
    with tb.Queue(max_bytes=3 * MIB - 1) as frames:
        assert frames.max_bytes == 3 * MIB - 1
        assert tb.Queue.open(frames.address).max_bytes == 3 * MIB - 1
        frames.put(np.zeros(MIB, np.uint8))
        frames.put(np.zeros(MIB, np.uint8))
        assert 2 * MIB <= frames.stats["bytes"] < 2 * MIB + 4096
        with pytest.raises(queue.Full):
            frames.put_nowait(np.zeros(MIB, np.uint8))
        with pytest.raises(queue.Full):
            frames.put(np.zeros(MIB, np.uint8), timeout=0.05)
        waiting = threading.Thread(target=frames.put, args=(np.ones(MIB, np.uint8),))
        waiting.start()
        assert frames.get()[0] == 0
        waiting.join(20)
        assert not waiting.is_alive()
        assert [item[0] for item in frames.get_many(5)] == [0, 1]
        assert frames.stats["bytes"] == 0
        with pytest.raises(tb.InvalidArgument, match="max_bytes"):
            frames.put(np.zeros(4 * MIB, np.uint8))
    with pytest.raises(tb.InvalidArgument):
        tb.Queue(max_bytes=-1)


BUDGET = """
import os, sys, threading, time
os.environ["TENSORBUS_BUDGET"] = str(16 << 20)
import numpy as np, tensorbus as tb
queue = tb.Queue()
def item():
    return np.ones(4 << 20, np.uint8)
def refused(**options):
    try:
        queue.put(item(), **options)
    except tb.OutOfMemory as error:
        assert "16 MiB" in str(error), error
        return True
    return False
count = 0
while not refused():
    count += 1
assert 2 <= count <= 4, count
assert refused(timeout=0.1) and refused(block=False)
assert queue.qsize() == count
"""

READER_FREES = (
    BUDGET
    + """
threading.Timer(0.2, queue.get).start()
began = time.monotonic()
queue.put(item(), timeout=30)
assert 0.1 < time.monotonic() - began < 10
try:
    queue.put(np.ones(17 << 20, np.uint8), timeout=600)  # never: it does not wait
except tb.OutOfMemory:
    pass
else:
    raise AssertionError
assert queue.qsize() == count
"""
)

MANY_PUTTERS = (
    BUDGET
    + """
got = []
def put_many(number):
    for _ in range(40):
        queue.put({"data": item(), "who": [str(number)] * 40}, timeout=60)
threads = [threading.Thread(target=put_many, args=(n,)) for n in range(3)]
for thread in threads: thread.start()
for _ in range(count + 120): queue.get(timeout=30)
for thread in threads: thread.join()
assert queue.qsize() == 0
"""
)

CONTROL_C = (
    BUDGET
    + """
import signal
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    queue.put(item(), timeout=60)
except KeyboardInterrupt:
    assert time.monotonic() - began < 20
    assert queue.qsize() == count
else:
    raise AssertionError
"""
)


@pytest.mark.parametrize(
    "script",
    [READER_FREES, MANY_PUTTERS, CONTROL_C],
    ids=["a reader frees some", "many putters", "Ctrl-C"],
)
def test_a_put_with_a_timeout_waits_for_memory(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_items_that_nobody_can_free_are_an_error_at_once() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", BUDGET], timeout=60)
    assert done.returncode == 0
    assert time.monotonic() - began < 30
