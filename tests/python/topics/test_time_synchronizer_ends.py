"""How synchronizers of several topics wait and end, also between processes."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, in_a_fork, tell, unused
from support.two_topics import publish_stamps, stamps_of, synchronized


def test_a_receive_of_no_time_and_its_error() -> None:
    with synchronized(3) as (publishers, sets):
        publish_stamps(publishers[1], 1)
        with pytest.raises(tb.Timeout, match=r"no sample waits on 'topic/0', 'topic/2'"):
            sets.receive(0)
        with pytest.raises(tb.Timeout):
            sets.receive(-1)
        assert sets.stats.waiting == (0, 1, 0)


def test_iteration_ends_after_the_timeout_or_when_it_is_closed() -> None:
    with synchronized(timeout=0.01) as ((left, right), pairs):
        publish_stamps(left, 1, 2)
        publish_stamps(right, 1, 2)
        assert [stamps_of(pair) for pair in pairs] == [[1, 1], [2, 2]]
        pairs.close()
        pairs.close()
        assert list(pairs) == []
        with pytest.raises(tb.Closed):
            pairs.receive()


def test_close_ends_waiting_calls_and_closes_the_subscribers() -> None:
    with synchronized() as ((left, _), pairs), ThreadPoolExecutor() as pool:
        publish_stamps(left, 1)
        waiting = [pool.submit(pairs.receive) for _ in range(2)]
        threading.Timer(0.01, pairs.close).start()
        for each in waiting:
            assert isinstance(each.exception(PATIENCE), tb.Closed)
        pairs.close()  # the thread may still be in its call
        assert pairs.stats.waiting == (0, 0)
        assert "closed" in repr(pairs)


def test_it_ends_with_the_first_stream_that_ends_once_its_samples_are_used() -> None:
    with synchronized(subscriber={"end_of_stream": True}) as ((left, right), pairs):
        publish_stamps(left, 1, 2)
        left.close()
        publish_stamps(right, 1)
        assert stamps_of(pairs.receive(PATIENCE)) == [1, 1]
        with pytest.raises(tb.Timeout):  # the sample of the topic that ended still waits
            pairs.receive(0.01)
        publish_stamps(right, 2)
        assert [stamps_of(pair) for pair in pairs] == [[2, 2]]
        with pytest.raises(tb.Closed, match="every publisher of 'topic/0'"):
            pairs.receive()


def test_a_stream_may_begin_again() -> None:
    with synchronized(subscriber={"end_of_stream": True}) as ((left, right), pairs):
        left.close()
        with pytest.raises(tb.Closed):
            pairs.receive(PATIENCE)
        with tb.Publisher("topic/0", history=1) as again:
            publish_stamps(again, 1)
            publish_stamps(right, 1)
            again.wait_for_subscribers(timeout=PATIENCE)
            pairs._subscribers[0].wait_for_publishers(timeout=PATIENCE)
            assert stamps_of(pairs.receive(PATIENCE)) == [1, 1]
            publish_stamps(right, 2)
            with pytest.raises(tb.Timeout):
                pairs.receive(0)


def test_several_threads_get_different_sets() -> None:
    with synchronized(timeout=PATIENCE) as ((left, right), pairs), ThreadPoolExecutor() as pool:
        waiting = [pool.submit(pairs.receive) for _ in range(4)]
        publish_stamps(left, *range(4))
        publish_stamps(right, *range(4))
        assert sorted(stamps_of(each.result()) for each in waiting) == [[n, n] for n in range(4)]


def test_samples_are_by_reference_and_stay_valid() -> None:
    with synchronized() as (publishers, pairs):
        for publisher in publishers:
            loan = publisher.loan(1000, dtype="float32")
            loan[:] = 7
            publisher.publish({"stamp": 1, "image": loan})
            assert publisher.stats.bytes_copied == 0
        samples = pairs.receive(PATIENCE)
        pairs.close()
        assert all(sample.data["image"].sum() == 7000 for sample in samples)
    del samples, loan
    unused()


def test_its_descriptor_is_readable_when_a_set_may_be_there() -> None:
    with synchronized() as ((left, right), pairs):
        poll = select.poll()
        poll.register(pairs.fileno(), select.POLLIN)
        assert pairs.try_receive() is None
        assert poll.poll(0) == []
        publish_stamps(left, 1)
        assert poll.poll(PATIENCE * 1000)
        assert pairs.try_receive() is None
        assert poll.poll(0) == []
        publish_stamps(right, 1)
        assert poll.poll(PATIENCE * 1000)
        assert stamps_of(pairs.try_receive()) == [1, 1]


def test_an_event_loop_awaits_sets() -> None:
    async def main() -> None:
        with synchronized(timeout=PATIENCE) as ((left, right), pairs):
            first = asyncio.create_task(pairs.receive_async())
            cancelled = asyncio.create_task(pairs.receive_async())
            await asyncio.sleep(0)
            cancelled.cancel()
            for stamp in range(100):
                publish_stamps(left, stamp)
                await asyncio.sleep(0)
                publish_stamps(right, stamp)
                await asyncio.sleep(0)
            assert stamps_of(await first) == [0, 0]
            found = [0]
            async for pair in pairs:
                found.append(stamps_of(pair)[0])
                if found[-1] == 99:
                    break
            assert found == sorted(set(found))
            with pytest.raises(tb.Timeout, match="no sample waits"):
                await pairs.receive_async(0.01)
            waiting = asyncio.create_task(pairs.receive_async())
            await asyncio.sleep(0)
            threading.Thread(target=pairs.close).start()
            with pytest.raises(tb.Closed):
                await waiting

    asyncio.run(main())


def test_a_forked_child_leaves_it_to_the_parent() -> None:
    with synchronized() as ((left, right), pairs):
        publish_stamps(left, 1)

        def child() -> None:
            with pairs, pytest.raises(tb.Forked):
                pairs.receive(0)

        in_a_fork(child)
        publish_stamps(right, 1)
        assert stamps_of(pairs.receive(PATIENCE)) == [1, 1]


def publish_when_told() -> None:
    with tb.Publisher(hear(), depth=64) as publisher:
        tell(os.getpid())
        for stamp in iter(hear, None):
            publisher.publish({"stamp": stamp, "image": np.full(10_000, stamp)})
            tell(stamp)


def test_a_publisher_that_is_killed_and_restarted(elsewhere: Elsewhere) -> None:
    topics = ["left", "right", "imu"]
    subscribers = [tb.Subscriber(topic) for topic in topics]

    def started(index: int) -> Any:
        process = elsewhere.start(publish_when_told)
        process.tell(topics[index])
        assert process.hear() == process.pid
        assert subscribers[index].wait_for_publishers(timeout=PATIENCE)
        return process

    def said(process: Any, stamp: float) -> None:
        process.tell(stamp)
        assert process.hear() == stamp

    with tb.TimeSynchronizer(subscribers, tolerance=0.01, queue_size=4, time="stamp") as sets:
        left, right, imu = (started(index) for index in range(3))
        for process, stamp in [(left, 1.0), (right, 1.005), (imu, 0.999)]:
            said(process, stamp)
        samples = sets.receive(PATIENCE)
        assert stamps_of(samples) == [1.0, 1.005, 0.999]
        right.kill()
        for stamp in range(2, 30):
            said(left, float(stamp))
            said(imu, stamp + 0.001)
            assert sets.try_receive() is None
        assert max(sets.stats.waiting) <= 4
        right = started(1)
        said(right, 29.0)
        assert stamps_of(sets.receive(PATIENCE)) == [29.0, 29.0, 29.001]
        assert all(sample.data["image"][0] == sample.data["stamp"] for sample in samples)
        said(right, 30.0)
        imu.kill()
        said(left, 30.0)
        with pytest.raises(tb.Timeout, match="no sample waits on 'imu'"):
            sets.receive(0)
        stats = sets.stats
        sums = [stats.sets + d + w for d, w in zip(stats.dropped, stats.waiting, strict=True)]
        assert tuple(sums) == stats.received
        for process in (left, right):
            process.tell(None)
