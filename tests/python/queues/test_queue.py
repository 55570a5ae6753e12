"""Queues: what they promise, with real processes, kills and stops."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell, unused
from support.repository import ROOT
from tensorbus._codec.fields import flatten
from tensorbus._core import Outcome

# What it shares with queue.Queue.


@pytest.fixture(params=[queue.Queue, tb.Queue])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_it_is_first_in_first_out_as_in_the_standard_library(kind: Any) -> None:
    line = kind()
    assert (line.empty(), line.full(), line.qsize(), line.maxsize) == (True, False, 0, 0)
    for number in range(3):
        line.put(number)
    assert (line.empty(), line.full(), line.qsize()) == (False, False, 3)
    assert [line.get(), line.get(timeout=PATIENCE), line.get_nowait()] == [0, 1, 2]


@pytest.mark.parametrize("options", [{"block": False}, {"timeout": 0.01}, {"timeout": 0}])
def test_it_raises_empty_and_full_as_in_the_standard_library(
    kind: Any, options: dict[str, Any]
) -> None:
    line = kind(maxsize=2)
    with pytest.raises(queue.Empty):
        line.get(**options)
    line.put("a")
    assert not line.full()
    line.put_nowait("b")
    assert line.full()
    with pytest.raises(queue.Full):
        line.put("c", **options)
    assert (line.get(), line.get(), line.qsize()) == ("a", "b", 0)


def test_it_counts_what_is_done_as_in_the_standard_library(kind: Any) -> None:
    line = kind()
    with pytest.raises(ValueError, match=r"task_done\(\) called"):
        line.task_done()
    line.join()
    for number in range(2):
        line.put(number)
    done: list[int] = []

    def work() -> None:
        for _ in range(2):
            done.append(line.get())
            line.task_done()

    worker = threading.Thread(target=work)
    worker.start()
    line.join()
    assert done == [0, 1]
    worker.join()
    with pytest.raises(ValueError, match=r"task_done\(\) called"):
        line.task_done()


def test_a_negative_timeout_is_refused_and_a_negative_size_is_no_limit(kind: Any) -> None:
    line = kind(-1)
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        line.get(timeout=-1)
    line.put(1)
    assert not line.full()


def test_a_thread_that_waits_gets_what_comes(kind: Any) -> None:
    line = kind(1)
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.extend(line.get() for _ in range(100)))
    reader.start()
    for number in range(100):
        line.put(number)
    reader.join()
    assert got == list(range(100))


# What is its own.


def test_join_can_have_a_timeout() -> None:
    with tb.Queue() as line:
        assert line.join(0) is True
        line.put(1)
        assert line.join(0.01) is False
        line.get()
        line.task_done()
        assert line.join(PATIENCE) is True


class Batch:
    def __init__(self, image: Any) -> None:
        self.image = image
        self.me = self


def test_items_are_any_objects_with_tensors_anywhere(torch: ModuleType) -> None:
    with tb.Queue() as line:
        for item in (
            None,
            7,
            {"a": [1, {"b": np.arange(3)}], "t": torch.ones(2)},
            np.arange(3),
            Batch(np.arange(10_000)),
            torch.nn.Linear(3, 2),
            len,
            ValueError("x"),
        ):
            line.put(item)
        assert line.get() is None
        assert line.get() == 7
        nested = line.get()
        assert nested["a"][1]["b"].tolist() == [0, 1, 2]
        assert torch.equal(nested["t"], torch.ones(2))
        assert line.get().tolist() == [0, 1, 2]
        batch = line.get()
        assert batch.me is batch
        assert batch.image.sum() == np.arange(10_000).sum()
        assert line.get().weight.shape == (2, 3)
        assert line.get() is len
        assert isinstance(line.get(), ValueError)
        del nested, batch
        unused()


def test_tensors_go_by_reference_and_those_of_a_shared_queue_can_be_written() -> None:
    kept = tb.empty(1000, "int64", shared=True)
    kept[:] = 1
    with tb.Queue(shared=True) as line:
        line.put({"kept": kept})
        item = line.get()
        item["kept"][3] = 5
        assert kept[3] == 5
    del item, kept
    unused()


def test_what_cannot_be_pickled_is_an_error_of_put() -> None:
    with tb.Queue() as line:
        with pytest.raises(Exception, match=r"pickle"):
            line.put(lambda: None)
        with pytest.raises(Exception, match=r"pickle"):
            line.put({"a": np.arange(3), "b": threading.Lock()})
        assert line.qsize() == 0
        unused()


def no_room(address: str) -> None:
    tb.participant(budget_bytes=1 << 20)
    line = tb.Queue.open(address)
    with pytest.raises(tb.OutOfMemory, match="budget"):
        line.put(np.zeros(1 << 21, np.uint8))
    line.put("small")


def test_a_limit_that_is_reached_is_an_error_of_put(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        elsewhere.run(no_room, line.address)
        assert line.get(timeout=PATIENCE) == "small"


@pytest.mark.parametrize("length", [0, 300])  # of a pickle that is read in Python, or in C++
def test_errors_of_unpickling_are_those_of_get_and_do_not_end_an_iteration(length: int) -> None:
    gone = tb.Queue()
    with tb.Queue() as line:
        line.put((gone, "x" * length))
        line.put(7)
        gone.close()
        with pytest.raises(tb.Closed):
            next(iter(line))
        assert next(iter(line)) == 7


def test_a_closed_queue_is_closed_and_ends_iterations() -> None:
    line = tb.Queue()
    again = tb.Queue.open(line.address)
    line.put(1)
    numbers = iter(again)
    assert next(numbers) == 1
    line.close()
    line.close()
    assert list(numbers) == []
    for each in (line, again):
        for use in (each.get, lambda each=each: each.put(1), each.qsize, each.join, each.task_done):
            with pytest.raises(tb.Closed):
                use()
    with pytest.raises(tb.Closed):
        tb.Queue.open(line.address)
    assert list(line) == []
    unused()


def is_closed(line: tb.Queue) -> bool:
    try:
        line.qsize()
    except tb.Closed:
        return True
    return False


def put_into_closed(address: str) -> None:
    line = tb.Queue.open(address)
    tell("open")
    hear()
    eventually(lambda: is_closed(line))  # `close` tells nobody that it has told everybody
    for _ in range(3):
        with pytest.raises(tb.Closed):
            line.put(np.zeros(100_000))
    unused()


def test_what_is_put_into_a_closed_queue_leaves_nothing_behind(elsewhere: Elsewhere) -> None:
    line = tb.Queue()
    other = elsewhere.start(put_into_closed, line.address)
    assert other.hear() == "open"
    line.close()
    other.tell()
    other.finish()


def test_one_that_was_opened_closes_for_itself_alone() -> None:
    with tb.Queue() as line:
        with tb.Queue.open(line.address) as other:
            other.put(1)
        with pytest.raises(tb.Closed):
            other.get()
        assert line.get() == 1


def test_threads_share_a_queue() -> None:
    each = 100
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    with tb.Queue(maxsize=4) as line:

        def consume_some() -> None:
            for _ in range(each):
                seen.put(int(line.get(timeout=PATIENCE)["number"][0]))

        def produce_some(who: int) -> None:
            for number in range(each):
                line.put({"number": np.full(300, who * each + number)})

        threads = [threading.Thread(target=consume_some) for _ in range(4)]
        threads += [threading.Thread(target=produce_some, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen.get() for _ in range(4 * each)) == list(range(4 * each))
        unused()


# Event loops.


def test_in_an_event_loop_it_waits_beside_other_tasks() -> None:
    async def main() -> list[int]:
        async def produce_some() -> None:
            for number in range(50):
                await line.put_async(number)

        async def consume_some() -> None:
            async for number in line:
                got.append(number)
                line.task_done()

        got: list[int] = []
        consumer = asyncio.create_task(consume_some())
        await produce_some()
        await line.join_async()
        line.close()
        await consumer
        return got

    line = tb.Queue(maxsize=2)
    assert asyncio.run(main()) == list(range(50))


def test_a_cancelled_get_has_taken_nothing() -> None:
    async def main() -> None:
        for number in range(100):
            task = asyncio.create_task(line.get_async())
            await asyncio.sleep(0)
            line.put(number)
            if number % 2:  # this answer comes after the offer, and the task has not run
                assert line.qsize() == 1
            task.cancel()
            with suppress(asyncio.CancelledError):
                assert await task == number
                continue
            assert await asyncio.wait_for(line.get_async(), PATIENCE) == number
        assert dict(line.stats).items() >= {"items": 0, "unfinished": 100, "lost": 0}.items()

    with tb.Queue(redeliver=True) as line:
        asyncio.run(main())


def test_a_cancelled_put_leaves_the_queue_in_order() -> None:
    async def main() -> None:
        with tb.Queue(maxsize=1) as line:
            line.put("first")
            for _ in range(20):
                task = asyncio.create_task(line.put_async(np.arange(1000)))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await line.get_async() == "first"
            line.put("second", timeout=PATIENCE)
            assert await line.get_async() == "second"

    asyncio.run(main())
    unused()


# Limits.


def many_items() -> None:
    import resource

    import tensorbus as tb

    with tb.Queue() as line:
        line.put(np.zeros(1000))
        line.get()
        before = len(os.listdir("/proc/self/fd"))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + 40, hard))
        for number in range(20_000):
            line.put({"number": number, "data": np.full(8, number)})
        assert line.qsize() == 20_000
        for number in range(20_000):
            item = line.get()
            assert item["number"] == number
            assert (item["data"] == number).all()
        del item
        unused()
        assert len(os.listdir("/proc/self/fd")) <= before + 40


def test_twenty_thousand_items_need_a_few_descriptors(elsewhere: Elsewhere) -> None:
    elsewhere.run(many_items)


def test_the_example_of_the_documentation_runs() -> None:
    page = (ROOT / "docs" / "queues.md").read_text()
    exec(page.partition("```python")[2].partition("```")[0], {})
    unused()


def test_an_item_that_was_put_is_not_put_again_without_its_tensors() -> None:
    with tb.Queue() as items:
        outgoing, fields = flatten({"image": np.arange(3)})
        assert items._here.put(outgoing, fields, 0) is Outcome.DONE
        with pytest.raises(tb.InvalidArgument, match="has been sent"):
            items._here.put(outgoing, fields, 0)
        assert items.qsize() == 1


def test_a_second_queue_of_a_name_is_refused_and_the_error_says_which_process_has_it(
    elsewhere: Elsewhere,
) -> None:
    def make() -> None:
        with tb.Queue(name="elsewhere"):
            tell("made")
            hear()

    other = elsewhere.start(make)
    assert other.hear() == "made"
    with pytest.raises(tb.InvalidArgument, match=f"already exists, made by process {other.pid} "):
        tb.Queue(name="elsewhere")
    other.tell()
    with (
        tb.Queue(name="here"),
        pytest.raises(
            tb.InvalidArgument, match=rf"already exists, made by this process \({os.getpid()}\)"
        ),
    ):
        tb.Queue(name="here")
