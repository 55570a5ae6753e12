"""Samples of several topics, combined by their times."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, in_a_fork, tell, unused

Publishers = list[tb.Publisher[Any]]


@contextmanager
def synchronized(
    count: int = 2,
    *,
    tolerance: float = 0,
    time: Any = "stamp",
    publisher: dict[str, Any] | None = None,
    subscriber: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[tuple[Publishers, tb.TimeSynchronizer]]:
    """Publishers of some topics, and a synchronizer that is connected to all."""
    with ExitStack() as stack:
        topics = [f"topic/{number}" for number in range(count)]
        senders = [
            stack.enter_context(tb.Publisher(topic, **{"depth": 64, **(publisher or {})}))
            for topic in topics
        ]
        subscribers = [tb.Subscriber(topic, **(subscriber or {})) for topic in topics]
        pairs = stack.enter_context(
            tb.TimeSynchronizer(subscribers, tolerance=tolerance, time=time, **options)
        )
        for sender, receiver in zip(senders, subscribers, strict=True):
            assert sender.wait_for_subscribers(timeout=PATIENCE)
            assert receiver.wait_for_publishers(timeout=PATIENCE)
        yield senders, pairs


def publish(publisher: tb.Publisher[Any], *stamps: float) -> None:
    for stamp in stamps:
        publisher.publish({"stamp": stamp})


def stamps_of(samples: Sequence[tb.Sample[Any]] | None) -> list[float]:
    assert samples is not None
    return [sample.data["stamp"] for sample in samples]


def test_a_set_has_a_sample_of_each_topic_in_the_order_of_the_subscribers() -> None:
    with synchronized(3) as (publishers, sets):
        for publisher in reversed(publishers):
            publish(publisher, 7)
        samples = sets.receive(PATIENCE)
        assert stamps_of(samples) == [7, 7, 7]
        assert tuple(sample.header.topic for sample in samples) == sets.topics


def test_times_may_differ_by_the_tolerance() -> None:
    with synchronized(tolerance=0.5) as ((left, right), pairs):
        publish(left, 1.0, 2.0, 3.0)
        publish(right, 1.5, 2.75, 3.25)
        assert [stamps_of(pairs.try_receive()) for _ in range(2)] == [[1.0, 1.5], [3.0, 2.75]]
        assert pairs.try_receive() is None


def test_the_time_of_publishing_is_the_default() -> None:
    with synchronized(tolerance=PATIENCE, time=None) as ((left, right), pairs):
        left.publish("left")
        right.publish("right")
        assert [sample.data for sample in pairs.receive(PATIENCE)] == ["left", "right"]


@pytest.mark.parametrize("time", [lambda sample: sample.data["at"], lambda s: s.data["at"] / 1e9])
def test_the_time_may_be_the_result_of_a_function(time: Callable[[Any], float]) -> None:
    with synchronized(time=time) as (publishers, pairs):
        for publisher in publishers:
            publisher.publish({"at": 7_000_000_000})
        assert [sample.data["at"] for sample in pairs.receive(PATIENCE)] == [7_000_000_000] * 2


def test_the_time_may_be_a_field_of_a_message() -> None:
    with (
        tb.Publisher("a", tb.HeaderMessage, history=1) as a,
        tb.Publisher("b", history=1) as b,
        tb.TimeSynchronizer(
            [tb.Subscriber("a", tb.HeaderMessage), tb.Subscriber("b")],
            tolerance=0,
            time="stamp_sec",
        ) as pairs,
    ):
        a.publish(tb.HeaderMessage(stamp_sec=7, stamp_nanosec=0, frame_id="", sequence=0))
        b.publish({"stamp_sec": np.int64(7)})
        assert pairs.receive(PATIENCE)[0].data.stamp_sec == 7


@pytest.mark.parametrize("stamp", [None, "7", True, float("nan"), float("inf"), 2**63, 1e10])
def test_a_sample_without_a_time_is_an_error_and_dropped(stamp: object) -> None:
    with synchronized() as ((left, right), pairs):
        left.publish({"stamp": stamp})
        publish(left, 1)
        publish(right, 1)
        with pytest.raises(tb.MessageError, match="field 'stamp' is"):
            pairs.receive(PATIENCE)
        assert stamps_of(pairs.receive(PATIENCE)) == [1, 1]
        assert pairs.stats.invalid == (1, 0)


@pytest.mark.parametrize("message", [{"id": 7}, np.zeros(3), [1, 2]])
def test_an_error_names_topic_and_field_that_are_missing(message: object) -> None:
    with synchronized() as ((_, right), pairs):
        right.publish(message)
        with pytest.raises(
            tb.MessageError, match=r"topic 'topic/1': a .* without the field 'stamp'"
        ):
            pairs.receive(PATIENCE)


def test_what_the_function_raises_is_raised_and_the_sample_dropped() -> None:
    with synchronized(time=lambda sample: 1 / sample.data) as ((left, _), pairs):
        left.publish(0)
        with pytest.raises(ZeroDivisionError):
            pairs.try_receive()
        assert pairs.try_receive() is None
        assert pairs.stats.received == pairs.stats.dropped == (1, 0)


def test_every_sample_is_counted() -> None:
    with synchronized(queue_size=3) as ((left, right), pairs):
        publish(left, 1, 2, 3, 4, 3, 5)
        assert pairs.try_receive() is None
        publish(right, 4, 6)
        assert stamps_of(pairs.try_receive()) == [4, 4]
        assert pairs.try_receive() is None
        stats = pairs.stats
        assert (stats.sets, stats.received, stats.waiting) == (1, (6, 2), (0, 1))
        assert (stats.unmatched, stats.overflowed, stats.late) == ((2, 0), (2, 0), (1, 0))
        assert stats.dropped == (5, 0)


def test_a_backlog_is_combined_as_it_would_have_been_live() -> None:
    """The fast topic does not push out the partners of the slow one."""
    with synchronized(queue_size=2) as ((slow, fast), pairs):
        publish(fast, *range(40))
        publish(slow, *range(0, 40, 10))
        found = [stamps_of(pairs.receive(PATIENCE)) for _ in range(4)]
        assert found == [[0, 0], [10, 10], [20, 20], [30, 30]]
        assert pairs.stats.overflowed == (0, 0)


def test_a_silent_topic_bounds_memory_and_holds_up_no_reliable_publisher() -> None:
    with (
        synchronized(queue_size=4, publisher={"depth": 4, "reliable": True}) as (publishers, pairs),
        ThreadPoolExecutor() as pool,
    ):
        left, right = publishers
        receiving = pool.submit(pairs.receive, PATIENCE)
        for stamp in range(100):
            left.publish({"stamp": stamp, "image": np.zeros(10_000)}, timeout=PATIENCE)
        publish(right, 99)
        assert stamps_of(receiving.result(PATIENCE)) == [99, 99]
        assert pairs.stats.received == (100, 1)
        assert max(pairs.stats.waiting) <= 4
    del receiving
    unused()


def test_a_receive_of_no_time_and_its_error() -> None:
    with synchronized(3) as (publishers, sets):
        publish(publishers[1], 1)
        with pytest.raises(tb.Timeout, match=r"no sample waits on 'topic/0', 'topic/2'"):
            sets.receive(0)
        with pytest.raises(tb.Timeout):
            sets.receive(-1)
        assert sets.stats.waiting == (0, 1, 0)


def test_iteration_ends_after_the_timeout_or_when_it_is_closed() -> None:
    with synchronized(timeout=0.01) as ((left, right), pairs):
        publish(left, 1, 2)
        publish(right, 1, 2)
        assert [stamps_of(pair) for pair in pairs] == [[1, 1], [2, 2]]
        pairs.close()
        pairs.close()
        assert list(pairs) == []
        with pytest.raises(tb.Closed):
            pairs.receive()


def test_close_ends_waiting_calls_and_closes_the_subscribers() -> None:
    with synchronized() as ((left, _), pairs), ThreadPoolExecutor() as pool:
        publish(left, 1)
        waiting = [pool.submit(pairs.receive) for _ in range(2)]
        threading.Timer(0.01, pairs.close).start()
        for each in waiting:
            assert isinstance(each.exception(PATIENCE), tb.Closed)
        pairs.close()  # the thread may still be in its call
        assert pairs.stats.waiting == (0, 0)
        assert "closed" in repr(pairs)


def test_it_ends_with_the_first_stream_that_ends_once_its_samples_are_used() -> None:
    with synchronized(subscriber={"end_of_stream": True}) as ((left, right), pairs):
        publish(left, 1, 2)
        left.close()
        publish(right, 1)
        assert stamps_of(pairs.receive(PATIENCE)) == [1, 1]
        with pytest.raises(tb.Timeout):  # the sample of the topic that ended still waits
            pairs.receive(0.01)
        publish(right, 2)
        assert [stamps_of(pair) for pair in pairs] == [[2, 2]]
        with pytest.raises(tb.Closed, match="every publisher of 'topic/0'"):
            pairs.receive()


def test_a_stream_may_begin_again() -> None:
    with synchronized(subscriber={"end_of_stream": True}) as ((left, right), pairs):
        left.close()
        with pytest.raises(tb.Closed):
            pairs.receive(PATIENCE)
        with tb.Publisher("topic/0", history=1) as again:
            publish(again, 1)
            publish(right, 1)
            again.wait_for_subscribers(timeout=PATIENCE)
            pairs._subscribers[0].wait_for_publishers(timeout=PATIENCE)
            assert stamps_of(pairs.receive(PATIENCE)) == [1, 1]
            publish(right, 2)
            with pytest.raises(tb.Timeout):
                pairs.receive(0)


def test_several_threads_get_different_sets() -> None:
    with synchronized(timeout=PATIENCE) as ((left, right), pairs), ThreadPoolExecutor() as pool:
        waiting = [pool.submit(pairs.receive) for _ in range(4)]
        publish(left, *range(4))
        publish(right, *range(4))
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
        publish(left, 1)
        assert poll.poll(PATIENCE * 1000)
        assert pairs.try_receive() is None
        assert poll.poll(0) == []
        publish(right, 1)
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
                publish(left, stamp)
                await asyncio.sleep(0)
                publish(right, stamp)
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


@pytest.mark.parametrize(
    "options",
    [
        {"tolerance": -0.1},
        {"tolerance": float("nan")},
        {"tolerance": None},
        {"tolerance": True},
        {"queue_size": 0},
        {"queue_size": 2.5},
        {"queue_size": 256},  # as many as may be held
        {"time": 7},
        {"timeout": float("nan")},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with (
        tb.Subscriber("a") as a,
        tb.Subscriber("b") as b,
        pytest.raises(tb.InvalidArgument, match=next(iter(options)) if options else ""),
    ):
        tb.TimeSynchronizer([a, b], **{"tolerance": 0, **options})


def test_it_needs_several_subscribers() -> None:
    with tb.Subscriber("a") as a, tb.AsyncSubscriber("b") as b:
        for wrong in ([], [a], [a, a], iter([a])):
            with pytest.raises(tb.InvalidArgument, match="at least two"):
                tb.TimeSynchronizer(wrong, tolerance=0)
        with pytest.raises(tb.InvalidArgument, match="receive_async"):
            tb.TimeSynchronizer([a, b], tolerance=0)  # type: ignore[list-item]
        with pytest.raises(TypeError, match="expected a list"):
            tb.TimeSynchronizer(a, tolerance=0)  # type: ignore[arg-type]


def test_a_forked_child_leaves_it_to_the_parent() -> None:
    with synchronized() as ((left, right), pairs):
        publish(left, 1)

        def child() -> None:
            with pairs, pytest.raises(tb.Forked):
                pairs.receive(0)

        in_a_fork(child)
        publish(right, 1)
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
