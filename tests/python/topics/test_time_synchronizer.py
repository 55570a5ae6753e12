"""Samples of several topics, combined by their times."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, unused
from support.two_topics import publish_stamps, stamps_of, synchronized


def test_a_set_has_a_sample_of_each_topic_in_the_order_of_the_subscribers() -> None:
    with synchronized(3) as (publishers, sets):
        for publisher in reversed(publishers):
            publish_stamps(publisher, 7)
        samples = sets.receive(PATIENCE)
        assert stamps_of(samples) == [7, 7, 7]
        assert tuple(sample.header.topic for sample in samples) == sets.topics


def test_times_may_differ_by_the_tolerance() -> None:
    with synchronized(tolerance=0.5) as ((left, right), pairs):
        publish_stamps(left, 1.0, 2.0, 3.0)
        publish_stamps(right, 1.5, 2.75, 3.25)
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
        publish_stamps(left, 1)
        publish_stamps(right, 1)
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
        publish_stamps(left, 1, 2, 3, 4, 3, 5)
        assert pairs.try_receive() is None
        publish_stamps(right, 4, 6)
        assert stamps_of(pairs.try_receive()) == [4, 4]
        assert pairs.try_receive() is None
        stats = pairs.stats
        assert (stats.sets, stats.received, stats.waiting) == (1, (6, 2), (0, 1))
        assert (stats.unmatched, stats.overflowed, stats.late) == ((2, 0), (2, 0), (1, 0))
        assert stats.dropped == (5, 0)


def test_a_backlog_is_combined_as_it_would_have_been_live() -> None:
    """The fast topic does not push out the partners of the slow one."""
    with synchronized(queue_size=2) as ((slow, fast), pairs):
        publish_stamps(fast, *range(40))
        publish_stamps(slow, *range(0, 40, 10))
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
        publish_stamps(right, 99)
        assert stamps_of(receiving.result(PATIENCE)) == [99, 99]
        assert pairs.stats.received == (100, 1)
        assert max(pairs.stats.waiting) <= 4
    del receiving
    unused()


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
