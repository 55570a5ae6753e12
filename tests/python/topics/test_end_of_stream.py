"""Subscribers with `end_of_stream` can tell publishers that have finished from quiet ones."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, in_a_fork, tell


def reader(**options: float) -> tb.Subscriber:
    return tb.Subscriber("topic", **{"timeout": PATIENCE, **options}, end_of_stream=True)  # type: ignore[arg-type]


def publish_three(how_it_ends: str) -> None:
    publisher = tb.Publisher("topic")
    publisher.wait_for_subscribers(timeout=PATIENCE)
    for number in range(3):
        publisher.publish(number)
    if how_it_ends == "close":
        publisher.close()
        os._exit(0)  # at once: no destructor, no time for the event loop
    if how_it_ends == "with":
        with publisher:
            raise SystemExit
    if how_it_ends == "del":
        del publisher
    tell("published")
    hear()


@pytest.mark.parametrize("how_it_ends", ["close", "with", "del"])
def test_iteration_ends_after_the_last_sample(elsewhere: Elsewhere, how_it_ends: str) -> None:
    with reader() as subscriber:
        process = elsewhere.start(publish_three, how_it_ends)
        assert [sample.data for sample in subscriber] == [0, 1, 2]
        with pytest.raises(tb.Closed, match="every publisher of 'topic'"):
            subscriber.receive()
        with pytest.raises(tb.Closed):
            subscriber.try_receive()
        if how_it_ends == "del":
            process.tell()


def test_a_publisher_that_was_killed_has_not_finished(elsewhere: Elsewhere) -> None:
    with reader() as subscriber:
        killed = elsewhere.start(publish_three, "kill")
        assert killed.hear() == "published"
        killed.kill()
        received = [subscriber.receive().data for _ in range(3)]
        with pytest.raises(tb.Timeout):
            subscriber.receive(0.3)
        # Another one takes its place, and finishes.
        elsewhere.start(publish_three, "close")
        received += [sample.data for sample in subscriber]
        assert received == [0, 1, 2, 0, 1, 2]


def test_iteration_over_a_stream_that_breaks_off_raises_a_timeout(elsewhere: Elsewhere) -> None:
    with reader(timeout=0.3) as subscriber:
        killed = elsewhere.start(publish_three, "kill")
        assert killed.hear() == "published"
        killed.kill()
        received = []
        with pytest.raises(tb.Timeout):
            received += [sample.data for sample in subscriber]


def test_a_stream_ends_when_every_publisher_has_closed() -> None:
    with reader() as subscriber, tb.Publisher("topic") as first, tb.Publisher("topic") as second:
        assert subscriber.wait_for_publishers(2, timeout=PATIENCE)
        first.publish(1)
        first.close()
        assert subscriber.receive().data == 1
        assert subscriber.try_receive() is None
        second.publish(2)
        second.close()
        assert [sample.data for sample in subscriber] == [2]


def test_a_stream_of_nothing_ends_too() -> None:
    with reader() as subscriber:
        with tb.Publisher("topic"):
            assert subscriber.wait_for_publishers(timeout=PATIENCE)
        assert list(subscriber) == []


def test_a_stream_that_never_began_has_no_end() -> None:
    with reader(timeout=0.05) as subscriber, pytest.raises(tb.Timeout):
        list(subscriber)


def test_without_being_asked_a_subscriber_waits_for_the_next_publisher() -> None:
    with tb.Subscriber("topic", timeout=0.05) as subscriber:
        with tb.Publisher("topic") as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(1)
        assert [sample.data for sample in subscriber] == [1]
        with pytest.raises(tb.Timeout):
            subscriber.receive()


def test_the_end_wakes_wait_any_and_receive_many() -> None:
    with reader() as subscriber:
        publisher = tb.Publisher("topic")
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        assert tb.wait_any([subscriber], timeout=0) == []
        closing = threading.Thread(target=publisher.close)
        closing.start()
        assert tb.wait_any([subscriber], timeout=PATIENCE) == [subscriber]
        closing.join()
        with pytest.raises(tb.Closed):
            subscriber.receive_many(10)


def test_asynchronous_iteration_ends_after_the_last_sample(elsewhere: Elsewhere) -> None:
    async def received() -> list[int]:
        async with tb.AsyncSubscriber("topic", timeout=PATIENCE, end_of_stream=True) as subscriber:
            elsewhere.start(publish_three, "close")
            numbers = [sample.data async for sample in subscriber]
            with pytest.raises(tb.Closed, match="every publisher"):
                await subscriber.receive()
            return numbers

    assert asyncio.run(received()) == [0, 1, 2]


def test_asynchronous_iteration_over_a_quiet_stream_raises_a_timeout() -> None:
    async def received() -> None:
        async with tb.AsyncSubscriber("topic", timeout=0.05, end_of_stream=True) as subscriber:
            async for _ in subscriber:
                raise AssertionError

    with tb.Publisher("topic"), pytest.raises(tb.Timeout):
        asyncio.run(received())


def test_the_end_of_a_forked_child_is_no_end() -> None:
    with reader() as subscriber, tb.Publisher("topic") as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)

        def leave() -> None:
            publisher.__exit__()

        in_a_fork(leave)
        publisher.publish(1)
        assert subscriber.receive().data == 1
        assert subscriber.try_receive() is None


def test_a_sample_that_is_held_does_not_hold_up_the_end() -> None:
    with reader() as subscriber:
        with tb.Publisher("topic") as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            frame = publisher.loan((4096,), "uint8")
            frame[:] = 3
            publisher.publish(frame)
        held = [sample.data for sample in subscriber]
        assert (held[0] == 3).all()


def publish_after_being_told() -> None:
    with tb.Publisher("topic", depth=1, reliable=True, lag_timeout=0.1) as publisher:
        publisher.wait_for_subscribers(timeout=PATIENCE)
        tell("joined")
        hear()
        for number in range(3):
            publisher.publish(number)
    tell("closed")


def read_to_the_end() -> None:
    with tb.Subscriber("topic", timeout=PATIENCE, end_of_stream=True) as subscriber:
        tell("ready")
        hear()
        tell([sample.data for sample in subscriber])


def test_a_stopped_reader_learns_the_end_of_a_publisher_that_cut_it_off(
    elsewhere: Elsewhere,
) -> None:
    process = elsewhere.start(read_to_the_end)
    assert process.hear() == "ready"
    sender = elsewhere.start(publish_after_being_told)
    assert sender.hear() == "joined"
    process.stop()
    try:
        sender.tell()
        assert sender.hear() == "closed"
        sender.finish(quietly=False)  # both log the cut-off
    finally:
        process.signal(signal.SIGCONT)
    process.tell()
    assert process.hear() == []
    process.finish(quietly=False)
