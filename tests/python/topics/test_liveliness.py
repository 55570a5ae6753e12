"""Subscribers learn that publishers have ended, and that samples do not arrive in time."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell
from tensorbus._topics.liveliness import FIRST_SAMPLE_TIME

TOPIC = "pulse"


def publish(count: int) -> None:
    """Publishes numbers, and arrays, and ends when it is told."""
    publisher = tb.Publisher(TOPIC, history=10)
    assert publisher.wait_for_subscribers(timeout=PATIENCE)
    for number in range(count):
        publisher.publish({"number": number, "array": np.full(1000, number)})
    tell("published")
    while True:
        match hear():
            case "more":
                publisher.publish({"number": count, "array": np.full(1000, count)})
                tell("published")
            case "close":
                publisher.close()
                tell("closed")
            case "exit":
                return


async def receive_in_a_loop(lost: list[Any], numbers: list[int], until: Callable[[], bool]) -> None:
    async with tb.AsyncSubscriber(TOPIC, on_publisher_lost=lost.append) as subscriber:
        while not until():
            with suppress(tb.Timeout):
                numbers.append((await subscriber.receive(timeout=0.05)).data["number"])


def receive(lost: list[Any], numbers: list[int], until: Callable[[], bool]) -> None:
    with tb.Subscriber(TOPIC, on_publisher_lost=lost.append, timeout=0.05) as subscriber:
        while not until():
            numbers += [sample.data["number"] for sample in subscriber]


@pytest.mark.parametrize("how", ["is killed", "exits", "closes"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_lost_publisher_is_reported_once_after_its_last_sample(
    elsewhere: Elsewhere, kind: str, how: str
) -> None:
    lost: list[tb.PublisherLost] = []
    numbers: list[int] = []
    other = elsewhere.start(publish, 3)

    def run() -> None:
        if kind == "sync":
            receive(lost, numbers, lambda: bool(lost))
        else:
            asyncio.run(receive_in_a_loop(lost, numbers, lambda: bool(lost)))

    thread = threading.Thread(target=run)
    thread.start()
    assert other.hear() == "published"
    if how == "is killed":
        other.kill()
    else:
        other.tell("exit" if how == "exits" else "close")
    thread.join(PATIENCE)
    assert numbers == [0, 1, 2]
    (only,) = lost
    assert only.topic == TOPIC
    assert only.pid == other.pid
    assert only.closed == (how != "is killed")
    if how == "closes":
        assert other.hear() == "closed"
        other.tell("exit")


def test_samples_that_wait_come_first(elsewhere: Elsewhere) -> None:
    seen: list[Any] = []
    with tb.Subscriber(TOPIC, timeout=PATIENCE, on_publisher_lost=seen.append) as subscriber:
        other = elsewhere.start(publish, 3)
        assert other.hear() == "published"
        other.kill()
        for _ in range(3):
            seen.append(subscriber.receive().data["number"])
        assert seen == [0, 1, 2]
        with pytest.raises(tb.Timeout):
            subscriber.receive(timeout=0.2)
        assert [type(each) for each in seen[3:]] == [tb.PublisherLost]


def test_one_of_several_publishers_is_lost_while_the_others_are_busy(elsewhere: Elsewhere) -> None:
    """It is reported although another publisher always has a sample."""
    lost: list[tb.PublisherLost] = []
    with (
        tb.Publisher(TOPIC, reliable=True, timeout=PATIENCE) as busy,
        tb.Subscriber(TOPIC, timeout=PATIENCE, on_publisher_lost=lost.append) as subscriber,
    ):
        assert busy.wait_for_subscribers(timeout=PATIENCE)
        ended = threading.Event()

        def publish_always() -> None:
            while not ended.is_set():
                busy.publish({"number": -1})

        thread = threading.Thread(target=publish_always)
        thread.start()
        other = elsewhere.start(publish, 3)
        assert subscriber.wait_for_publishers(2, timeout=PATIENCE)
        assert other.hear() == "published"
        other.kill()
        numbers = []
        deadline = time.monotonic() + PATIENCE
        while not lost and time.monotonic() < deadline:
            numbers.append(subscriber.receive().data["number"])
        ended.set()
        while subscriber.try_receive() is not None:
            pass
        thread.join()
    assert [number for number in numbers if number >= 0] == [0, 1, 2]
    assert [each.pid for each in lost] == [other.pid]


def test_an_error_of_the_callback_is_raised_and_loses_nothing(elsewhere: Elsewhere) -> None:
    def refuse(lost: tb.PublisherLost) -> None:
        seen.append(lost.pid)
        raise IndexError("mine")

    seen: list[int] = []
    with tb.Subscriber(TOPIC, timeout=PATIENCE, on_publisher_lost=refuse) as subscriber:
        others = [elsewhere.start(publish, 1) for _ in range(2)]
        for other in others:
            assert other.hear() == "published"
        assert {subscriber.receive().data["number"] for _ in range(2)} == {0}
        for other in others:
            other.kill()
        for _ in range(2):
            with pytest.raises(IndexError, match="mine"):
                subscriber.receive()
        assert sorted(seen) == sorted(other.pid for other in others)
        with pytest.raises(tb.Timeout):
            subscriber.receive(timeout=0.05)


def test_it_says_nothing_about_a_publisher_that_goes_on(elsewhere: Elsewhere) -> None:
    lost: list[tb.PublisherLost] = []
    with (
        tb.Subscriber(TOPIC, timeout=PATIENCE, on_publisher_lost=lost.append) as subscriber,
        tb.Subscriber(TOPIC, on_publisher_lost=lost.append),
        tb.Publisher(TOPIC) as publisher,
    ):
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        publisher.publish(1)
        assert subscriber.receive().data == 1
        with pytest.raises(tb.Timeout):
            subscriber.receive(timeout=0.05)
    assert lost == []


def test_end_of_stream_reports_the_publishers_first(elsewhere: Elsewhere) -> None:
    lost: list[tb.PublisherLost] = []
    with tb.Subscriber(
        TOPIC, timeout=PATIENCE, end_of_stream=True, on_publisher_lost=lost.append
    ) as subscriber:
        other = elsewhere.start(publish, 2)
        assert other.hear() == "published"
        other.tell("exit")
        assert [sample.data["number"] for sample in subscriber] == [0, 1]
    assert [each.closed for each in lost] == [True]


def test_a_missed_deadline_is_reported_once_each_period() -> None:
    missed: list[tb.DeadlineMissed] = []
    with (
        tb.Publisher(TOPIC, history=1) as publisher,
        tb.Subscriber(TOPIC, expect_every=0.05, on_deadline_missed=missed.append) as subscriber,
    ):
        with pytest.raises(tb.Timeout):
            subscriber.receive(timeout=0.2)
        assert missed == []  # there was no sample yet: it has longer for the first one
        publisher.publish(1)
        assert subscriber.receive(timeout=PATIENCE).data == 1
        with pytest.raises(tb.Timeout):
            subscriber.receive(timeout=0.3)
        counts = [each.missed for each in missed]
        assert counts[-1] == subscriber.deadlines_missed >= 5
        assert counts == sorted(set(counts))
        assert all(each.silence >= 0.05 * each.missed for each in missed)
        assert missed[0].topic == TOPIC
        assert not missed[0].first


def test_a_publisher_that_never_comes_is_reported_once_each_period() -> None:
    missed: list[tb.DeadlineMissed] = []
    with tb.Subscriber(
        TOPIC, expect_every=0.01, expect_first=0.05, on_deadline_missed=missed.append
    ) as subscriber:
        with pytest.raises(tb.Timeout):
            subscriber.receive(timeout=0.3)
        assert all(each.first and each.silence >= 0.05 * each.missed for each in missed)
        counts = [each.missed for each in missed]
        assert counts == sorted(set(counts))
        assert counts[-1] == subscriber.deadlines_missed >= 5


def test_after_the_first_sample_the_other_deadline_holds() -> None:
    missed: list[tb.DeadlineMissed] = []
    with (
        tb.Publisher(TOPIC, history=1) as publisher,  # it is there, but publishes nothing
        tb.Subscriber(
            TOPIC, expect_every=0.02, expect_first=0.05, on_deadline_missed=missed.append
        ) as subscriber,
    ):
        while not missed:
            assert subscriber.try_receive() is None
        publisher.publish(1)
        assert subscriber.receive(timeout=PATIENCE).data == 1
        before = len(missed)
        with pytest.raises(tb.Timeout):
            subscriber.receive(timeout=0.1)
        assert all(each.first for each in missed[:before])
        assert not any(each.first for each in missed[before:])
        assert missed[before].missed > missed[before - 1].missed
        assert missed[before].silence >= 0.02


def test_the_first_sample_alone_can_be_expected() -> None:
    missed: list[tb.DeadlineMissed] = []
    with (
        tb.Publisher(TOPIC, history=1) as publisher,
        tb.Subscriber(TOPIC, expect_first=0.05, on_deadline_missed=missed.append) as subscriber,
    ):
        with pytest.raises(tb.Timeout):
            subscriber.receive(timeout=0.2)
        publisher.publish(1)
        assert subscriber.receive(timeout=PATIENCE).data == 1
        before = [*missed]
        assert before[0].first
        with pytest.raises(tb.Timeout):
            subscriber.receive(timeout=0.2)
        assert missed == before


def test_by_default_the_first_sample_has_longer_and_the_longer_time_wins() -> None:
    for options, expected in (
        ({"expect_every": 0.1}, FIRST_SAMPLE_TIME),
        ({"expect_every": 60.0}, 60.0),
        ({"expect_every": 0.1, "expect_first": 0.2}, 0.2),
        ({"expect_every": 0.1, "expect_first": math.inf}, math.inf),
    ):
        before = time.monotonic()
        with tb.Subscriber(TOPIC, **options) as subscriber:
            assert subscriber._liveliness is not None
            left = subscriber._liveliness.seconds_left()
            assert expected - (time.monotonic() - before) <= left <= expected


def test_samples_in_time_miss_no_deadline_even_if_the_program_is_slow() -> None:
    with (
        tb.Publisher(TOPIC, depth=10) as publisher,
        tb.Subscriber(TOPIC, expect_every=0.2) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(3):
            publisher.publish(number)
        for number in range(3):
            assert subscriber.receive(timeout=PATIENCE).data == number
            time.sleep(0.25)  # a slow program; the next sample waits already
        assert subscriber.deadlines_missed == 0
        assert subscriber.try_receive() is None
        assert subscriber.deadlines_missed >= 1


def test_a_deadline_in_an_event_loop(elsewhere: Elsewhere) -> None:
    missed: list[tb.DeadlineMissed] = []

    async def main() -> None:
        with tb.Publisher(TOPIC, history=1) as publisher:
            async with tb.AsyncSubscriber(
                TOPIC, expect_every=0.02, on_deadline_missed=missed.append
            ) as subscriber:
                publisher.publish(1)
                assert (await subscriber.receive(PATIENCE)).data == 1
                waiting = asyncio.create_task(subscriber.receive())
                while len(missed) < 5:
                    await asyncio.sleep(0.001)
                publisher.publish(2)
                assert (await waiting).data == 2
                assert subscriber.deadlines_missed == missed[-1].missed
                with pytest.raises(tb.Timeout):
                    await subscriber.receive_many(5, timeout=0.1)
                assert subscriber.deadlines_missed > 5

    asyncio.run(main())


@pytest.mark.parametrize(
    "options",
    [
        {"expect_every": 0},
        {"expect_every": -1.0},
        {"expect_every": float("nan")},
        {"expect_every": 1e12},
        {"expect_first": 0},
        {"expect_first": float("nan")},
        {"on_deadline_missed": print},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(tb.InvalidArgument):
        tb.Subscriber(TOPIC, **options)
    with pytest.raises(tb.InvalidArgument):
        tb.AsyncSubscriber(TOPIC, **options)
