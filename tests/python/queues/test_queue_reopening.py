"""Queues that are opened with `reopen=True` go on in the next queue of their name."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import queue
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, Process, eventually, hear, in_a_fork, tell, unused

NAME = "jobs"
# How a server ends its queue.
ENDS = ["is killed", "closes", "is shut down"]


def serve(options: dict[str, Any], items: list[Any]) -> None:
    """Makes the queue, puts items, and does what it is told. A tuple is put as an array."""
    logging.disable()  # of items that are dropped at the end
    while True:
        with tb.Queue(name=NAME, **options) as served:
            for item in items:
                served.put(np.ones(item[0]) if isinstance(item, tuple) else item)
            tell("made")
            match hear():
                case "close":
                    served.close()
                case "shut down":
                    served.shutdown()
            tell("ended")
            items = hear()
            served.close()


def server(elsewhere: Elsewhere, *items: Any, **options: Any) -> Process:
    """A process with the queue, once the queue is there."""
    process = elsewhere.start(serve, options, list(items))
    process.hear()
    return process


def end(process: Process, how: str) -> None:
    """Ends the queue of a process; if it is shut down, its name is still taken."""
    if how == "is killed":
        process.kill()
    else:
        process.tell("close" if how == "closes" else "shut down")
        process.hear()


def next_server(elsewhere: Elsewhere, process: Process, how: str, *items: Any) -> None:
    """Makes the next queue, after `end`."""
    if how == "is killed":
        server(elsewhere, *items)
    else:
        process.tell(list(items))
        process.hear()


async def put_in_a_loop(jobs: tb.Queue[Any]) -> None:
    await jobs.put_async({"array": np.ones(1000)})


PUTS: dict[str, Callable[[tb.Queue[Any]], Any]] = {
    "put": lambda jobs: jobs.put(7),
    "put of an array": lambda jobs: jobs.put(np.ones(1000)),
    "put_many": lambda jobs: jobs.put_many([1, np.ones(1000), 3]),
    "put_async": lambda jobs: asyncio.run(put_in_a_loop(jobs)),
}


async def first_of(jobs: tb.Queue[Any]) -> Any:
    async for item in jobs:
        return item


GETS: dict[str, Callable[[tb.Queue[Any]], Any]] = {
    "get": lambda jobs: jobs.get(),
    "get with a timeout": lambda jobs: jobs.get(timeout=PATIENCE),
    "get_many": lambda jobs: jobs.get_many(1)[0],
    "iteration": lambda jobs: next(iter(jobs)),
    "get_async": lambda jobs: asyncio.run(jobs.get_async()),
    "async for": lambda jobs: asyncio.run(first_of(jobs)),
}


class Waiting:
    """A call in a thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._outcome.put(call())
        except BaseException as error:
            self._outcome.put(error)

    def waits(self) -> bool:
        try:
            raise AssertionError(f"it did not wait: {self._outcome.get(timeout=0.05)!r}")
        except queue.Empty:
            return True

    def result(self) -> Any:
        found = self._outcome.get(timeout=PATIENCE)
        self._thread.join(PATIENCE)
        return found


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("call", GETS)
def test_a_get_goes_on_in_the_next_queue(elsewhere: Elsewhere, call: str, how: str) -> None:
    before = server(elsewhere)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    getting = Waiting(lambda: GETS[call](jobs))
    assert getting.waits()
    end(before, how)
    assert getting.waits()
    next_server(elsewhere, before, how, "next")
    assert getting.result() == "next"


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("call", PUTS)
def test_a_put_goes_on_in_the_next_queue(elsewhere: Elsewhere, call: str, how: str) -> None:
    before = server(elsewhere, "first", maxsize=1)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    putting = Waiting(lambda: PUTS[call](jobs))
    assert putting.waits()
    end(before, how)
    assert putting.waits()
    next_server(elsewhere, before, how)
    other = tb.Queue.open(NAME, timeout=PATIENCE)
    found = [other.get(timeout=PATIENCE) for _ in range(3 if call == "put_many" else 1)]
    assert not isinstance(putting.result(), BaseException)
    assert "first" not in map(str, found)
    assert other.empty()


def test_calls_find_a_server_that_restarted_between_them(elsewhere: Elsewhere) -> None:
    jobs = None
    for number in range(5):
        now = server(elsewhere, number, (1000,))
        jobs = jobs if jobs is not None else tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
        assert jobs.get(timeout=PATIENCE) == number
        assert jobs.get(timeout=PATIENCE).sum() == 1000
        jobs.put("last")
        assert jobs.qsize() == 1
        now.kill()
    unused()


def test_a_call_waits_no_longer_than_its_timeout(elsewhere: Elsewhere) -> None:
    server(elsewhere).kill()
    other = server(elsewhere)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    other.kill()
    for timeout in (0, 0.01, 0.7):
        with pytest.raises(queue.Empty):
            jobs.get(timeout=timeout)
        with pytest.raises(queue.Full):
            jobs.put(1, timeout=timeout)
        with pytest.raises(queue.Full):
            jobs.put(np.ones(3), timeout=timeout)
        with pytest.raises(queue.Empty):
            jobs.get_many(3, timeout=timeout)
        assert jobs.put_many([1, 2], timeout=timeout) == 0
    with pytest.raises(queue.Full):
        jobs.put_nowait(1)
    with pytest.raises(queue.Empty):
        jobs.get_nowait()
    with pytest.raises(tb.Closed):
        jobs.qsize()
    server(elsewhere, "next")
    assert jobs.get_nowait() == "next"
    assert jobs.qsize() == 0
    jobs.put_nowait(2)
    assert jobs.qsize() == 1


def test_a_queue_that_is_shut_down_ends_when_it_is_empty(elsewhere: Elsewhere) -> None:
    before = server(elsewhere, 1, 2)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    end(before, "is shut down")
    assert [jobs.get(), jobs.get()] == [1, 2]
    with pytest.raises(queue.Empty):
        jobs.get_nowait()
    with pytest.raises(queue.Full):
        jobs.put(3, timeout=0.05)
    before.kill()
    server(elsewhere)
    jobs.put(3)
    assert jobs.get(timeout=PATIENCE) == 3


def test_a_shutdown_by_the_object_itself_ends_it(elsewhere: Elsewhere) -> None:
    before = server(elsewhere, 1, 2)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    jobs.shutdown()
    assert list(jobs) == [1, 2]
    for call in (lambda: jobs.put(1), lambda: jobs.get()):
        with pytest.raises(tb.ShutDown):
            call()
    before.kill()
    server(elsewhere, 3)
    with pytest.raises(tb.Closed):
        jobs.qsize()
    with pytest.raises(tb.Closed):
        jobs.get()
    with pytest.raises(tb.Closed):
        jobs.put(1)


@pytest.mark.parametrize("end_it", ["close", "shutdown"])
@pytest.mark.parametrize("call", ["get", "get_async"])
def test_its_own_end_ends_calls_that_wait_for_the_next_queue(
    elsewhere: Elsewhere, end_it: str, call: str
) -> None:
    before = server(elsewhere)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    getting = Waiting(lambda: GETS[call](jobs))
    before.kill()
    assert getting.waits()
    with suppress(tb.Closed):  # there is no queue to shut down
        getattr(jobs, end_it)()
    assert isinstance(getting.result(), tb.Closed)
    server(elsewhere, 1)
    with pytest.raises(tb.Closed):
        jobs.get()


def test_a_shutdown_reaches_a_server_that_has_restarted(elsewhere: Elsewhere) -> None:
    before = server(elsewhere)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    before.kill()
    server(elsewhere, 5)
    jobs.shutdown()
    assert list(jobs) == [5]


def test_it_is_opened_by_name_only() -> None:
    with tb.Queue(name=NAME) as jobs, pytest.raises(tb.InvalidArgument, match="by name"):
        tb.Queue.open(jobs.address, reopen=True)


def test_the_next_queue_must_be_shared_alike(elsewhere: Elsewhere) -> None:
    before = server(elsewhere)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    before.kill()
    other = server(elsewhere, 1, shared=True)
    for call in (lambda: jobs.get(), lambda: jobs.put(1), lambda: jobs.qsize()):
        with pytest.raises(tb.InvalidArgument, match="shared"):
            call()
    with pytest.raises(tb.InvalidArgument, match="shared"):
        asyncio.run(jobs.get_async())
    other.kill()
    server(elsewhere, 2)
    assert jobs.get() == 2


def test_access_and_library_hold_in_the_next_queue(elsewhere: Elsewhere) -> None:
    before = server(elsewhere, (1000,))
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True, access="read", library="numpy")
    assert not jobs.get().flags.writeable
    before.kill()
    server(elsewhere, (1000,))
    assert not jobs.get().flags.writeable


def test_items_of_the_ended_queue_count_nothing_in_the_next(elsewhere: Elsewhere) -> None:
    before = server(elsewhere, 1, 2, redeliver=True)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    assert [jobs.get(), jobs.get()] == [1, 2]
    before.kill()
    jobs.task_done()
    server(elsewhere, 3, redeliver=True)
    assert jobs.get() == 3
    jobs.task_done()  # of 2
    assert jobs.stats.unfinished == 1
    jobs.task_done()
    assert jobs.stats.unfinished == 0
    with pytest.raises(ValueError, match="more often"):
        jobs.task_done()
    assert jobs.join(PATIENCE)


def test_an_item_of_a_queue_that_was_shut_down_is_done_there(elsewhere: Elsewhere) -> None:
    before = server(elsewhere, 1, 2, redeliver=True)
    other = tb.Queue.open(NAME, timeout=PATIENCE)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    assert [jobs.get(), jobs.get()] == [1, 2]
    end(before, "is shut down")
    with pytest.raises(queue.Full):
        jobs.put(3, timeout=0.05)
    jobs.task_done()
    jobs.task_done()
    assert other.join(PATIENCE)


@pytest.mark.parametrize("call", ["join", "join_async"])
def test_join_says_that_the_items_are_gone(elsewhere: Elsewhere, call: str) -> None:
    def join() -> Any:
        return jobs.join() if call == "join" else asyncio.run(jobs.join_async())

    before = server(elsewhere, 1)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    joining = Waiting(join)
    assert joining.waits()
    before.kill()
    assert isinstance(joining.result(), tb.Closed)
    server(elsewhere)
    with pytest.raises(tb.Closed):
        join()
    join()  # in the next queue


def test_a_pickle_reopens_too_even_while_no_server_runs(elsewhere: Elsewhere) -> None:
    def get(pickled: bytes) -> None:
        jobs = pickle.loads(pickled)
        tell(jobs.maxsize)
        tell(jobs.get(timeout=PATIENCE))
        jobs.task_done()
        tell(jobs.get(timeout=PATIENCE))

    before = server(elsewhere, maxsize=3)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True, access="read")
    before.kill()
    other = elsewhere.start(get, pickle.dumps(jobs))
    assert other.hear() == 3
    now = server(elsewhere, "first")
    assert other.hear() == "first"
    now.kill()
    server(elsewhere, "second")
    assert other.hear() == "second"
    other.finish()


def test_a_forked_child_reopens_too(elsewhere: Elsewhere) -> None:
    def run(name: str) -> None:
        jobs = tb.Queue.open(name, timeout=PATIENCE, reopen=True)
        assert jobs.get() == "of the parent"
        waiting = threading.Thread(target=lambda: jobs.get(timeout=PATIENCE))
        waiting.start()

        def child() -> None:
            with pytest.raises(ValueError, match="more often"):
                jobs.task_done()
            tell("forked")
            tell(jobs.get(timeout=PATIENCE))
            jobs.task_done()

        in_a_fork(child)
        waiting.join()

    before = server(elsewhere, "of the parent")
    other = elsewhere.start(run, NAME)
    assert other.hear() == "forked"
    before.kill()
    server(elsewhere, "next", "next")
    assert other.hear() == "next"
    other.finish()


def test_a_put_whose_server_dies_before_it_replies_is_made_again(elsewhere: Elsewhere) -> None:
    before = server(elsewhere)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    before.stop()
    putting = Waiting(lambda: jobs.put({"data": np.full(5000, 7)}))
    assert putting.waits()
    before.kill()
    server(elsewhere)
    assert putting.result() is None
    assert jobs.get(timeout=PATIENCE)["data"].sum() == 35000


def test_ctrl_c_ends_a_wait_for_the_next_queue(elsewhere: Elsewhere) -> None:
    def run(name: str) -> None:
        jobs = tb.Queue.open(name, timeout=PATIENCE, reopen=True)
        tell("ready")
        try:
            jobs.get()
        except KeyboardInterrupt:
            tell("interrupted")

    before = server(elsewhere)
    other = elsewhere.start(run, NAME)
    assert other.hear() == "ready"
    before.kill()
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"
    other.finish()


def test_many_tasks_wait_in_one_thread_and_a_cancelled_one_takes_nothing(
    elsewhere: Elsewhere,
) -> None:
    async def main() -> None:
        before = server(elsewhere)
        jobs = await tb.Queue.open_async(NAME, timeout=PATIENCE, reopen=True)
        tasks = [asyncio.create_task(jobs.get_async()) for _ in range(50)]
        await asyncio.sleep(0)
        await asyncio.to_thread(before.kill)
        while not searches():
            await asyncio.sleep(0.001)
        assert searches() == 1
        for task in tasks[::2]:
            task.cancel()
        await asyncio.to_thread(server, elsewhere, *range(25))
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted(one for one in found if isinstance(one, int)) == list(range(25))

    def searches() -> int:
        return sum(thread.name == "tensorbus-open" for thread in threading.enumerate())

    asyncio.run(main())
    eventually(lambda: searches() == 0)


def test_the_thread_ends_after_its_last_task(elsewhere: Elsewhere) -> None:
    before = server(elsewhere)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    before.kill()

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(jobs.get_async(), 0.05)

    asyncio.run(main())
    eventually(lambda: all(one.name != "tensorbus-open" for one in threading.enumerate()))


def test_many_threads_go_on_together(elsewhere: Elsewhere) -> None:
    before = server(elsewhere)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    getting = [Waiting(lambda: jobs.get()) for _ in range(10)]
    assert getting[-1].waits()
    before.kill()
    server(elsewhere, *range(10))
    assert sorted(one.result() for one in getting) == list(range(10))


def test_restarts_leave_no_descriptor_behind(elsewhere: Elsewhere) -> None:
    def restart() -> None:
        now = server(elsewhere, 1)
        assert jobs.get(timeout=PATIENCE) == 1
        jobs.put(np.ones(1000))
        now.kill()

    first = server(elsewhere)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE, reopen=True)
    first.kill()
    restart()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        restart()
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)
