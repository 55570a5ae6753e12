"""Samples from one process to another, whatever starts first and whoever ends first."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, joined, tell

COUNT = 5


def publish_on_request(topic: str) -> None:
    """Publishes a picture of whatever number it is told."""
    with tb.Publisher(topic) as publisher:
        tell("ready")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        while (number := hear()) is not None:
            publisher.publish({"id": number, "image": np.full((480, 640), number, np.uint16)})
        tell("closing")
    tell("closed")


def tell_what_comes(topic: str, count: int) -> None:
    with tb.Subscriber(topic, timeout=PATIENCE) as subscriber:
        tell("ready")
        for _ in range(count):
            data = subscriber.receive().data
            tell((data["id"], data["image"].shape, int(data["image"].sum())))


@pytest.mark.parametrize("first", ["publisher", "subscriber"])
def test_a_sample_crosses_whichever_side_starts_first(elsewhere: Elsewhere, first: str) -> None:
    if first == "publisher":
        publisher = elsewhere.start(publish_on_request, "camera/image")
        assert publisher.hear() == "ready"
        subscriber = elsewhere.start(tell_what_comes, "camera/image", COUNT)
    else:
        subscriber = elsewhere.start(tell_what_comes, "camera/image", COUNT)
        assert subscriber.hear() == "ready"
        publisher = elsewhere.start(publish_on_request, "camera/image")
        assert publisher.hear() == "ready"
    if first == "publisher":
        assert subscriber.hear() == "ready"
    for number in range(COUNT):
        publisher.tell(number)
        assert subscriber.hear() == (number, (480, 640), number * 480 * 640)


def test_a_header_says_where_a_sample_comes_from(elsewhere: Elsewhere) -> None:
    def publish(topic: str) -> None:
        with tb.Publisher(topic) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(3):
                publisher.publish(number)
            tell(tb.participant().id)

    with tb.Subscriber("a/b", timeout=PATIENCE) as subscriber:
        other = elsewhere.start(publish, "a/b")
        headers = [subscriber.receive().header for _ in range(3)]
        participant = other.hear()
    assert [header.sequence for header in headers] == [0, 1, 2]
    assert {header.topic for header in headers} == {"a/b"}
    assert {header.fingerprint for header in headers} == {0}
    (publisher,) = {header.publisher for header in headers}
    assert publisher.startswith(participant)
    times = [header.timestamp_ns for header in headers]
    assert times == sorted(times)
    assert times[0] > 0


def test_every_subscriber_process_gets_every_sample(elsewhere: Elsewhere) -> None:
    with tb.Publisher("topic", depth=COUNT) as publisher:
        others = [elsewhere.start(tell_what_comes, "topic", COUNT) for _ in range(2)]
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        for number in range(COUNT):
            assert publisher.publish({"id": number, "image": np.full(10, number)}) == 2
        for other in others:
            assert other.hear() == "ready"
            heard = [other.hear() for _ in range(COUNT)]
            assert heard == [(number, (10,), 10 * number) for number in range(COUNT)]


def test_a_subscriber_hears_the_publishers_of_all_processes(elsewhere: Elsewhere) -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        others = [elsewhere.start(publish_on_request, "topic") for _ in range(2)]
        assert subscriber.wait_for_publishers(2, timeout=PATIENCE)
        for number, other in enumerate(others):
            other.tell(number)
        samples = [subscriber.receive() for _ in others]
    assert {sample.data["id"] for sample in samples} == {0, 1}
    assert len({sample.header.publisher for sample in samples}) == 2


def test_what_a_publisher_sent_before_it_closed_still_arrives(elsewhere: Elsewhere) -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        other = elsewhere.start(publish_on_request, "topic")
        assert other.hear() == "ready"
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        for message in (1, 2, None):
            other.tell(message)
        assert (other.hear(), other.hear()) == ("closing", "closed")
        other.finish()
        assert [subscriber.receive().data["id"] for _ in range(2)] == [1, 2]
        eventually(lambda: subscriber.stats["publishers"] == 0)


@pytest.mark.parametrize("end", ["close", "exit", "SIGKILL"])
def test_a_received_array_outlives_its_publisher_unchanged(elsewhere: Elsewhere, end: str) -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        other = elsewhere.start(publish_on_request, "topic")
        assert other.hear() == "ready"
        other.tell(7)
        image = subscriber.receive().data["image"]
        if end == "SIGKILL":
            other.kill()
        else:
            other.tell(None)
            assert (other.hear(), other.hear()) == ("closing", "closed")
            if end == "exit":
                other.finish()
        eventually(lambda: subscriber.stats["publishers"] == 0)
        assert np.array_equal(image, np.full((480, 640), 7))
    assert np.array_equal(image, np.full((480, 640), 7))


def test_what_was_published_before_a_sigkill_is_delivered(elsewhere: Elsewhere) -> None:
    def publish_and_die(topic: str) -> None:
        publisher = tb.Publisher(topic)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        tell(publisher.publish(np.arange(100_000)))
        signal.pause()

    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        other = elsewhere.start(publish_and_die, "topic")
        assert other.hear() == 1  # one subscriber has it, so it will get it
        other.kill()
        assert np.array_equal(subscriber.receive().data, np.arange(100_000))
        eventually(lambda: subscriber.stats["publishers"] == 0)


def test_a_killed_subscriber_gives_back_all_that_it_held(elsewhere: Elsewhere) -> None:
    def hold(topic: str) -> None:
        subscriber = tb.Subscriber(topic, timeout=PATIENCE)
        held = [subscriber.receive().data for _ in range(2)]
        tell(len(held))
        signal.pause()

    with tb.Publisher("topic") as publisher:
        other = elsewhere.start(hold, "topic")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(4):  # two are held, two stay in the queue
            publisher.publish(np.zeros(1000))
        assert other.hear() == 2
        assert publisher.stats["bytes_in_flight"] >= 4 * 8000
        other.kill()
        eventually(lambda: publisher.stats["subscribers"] == 0)
        eventually(lambda: publisher.stats["bytes_in_flight"] == 0)  # its link ends first


def test_a_new_publisher_takes_the_place_of_a_killed_one(elsewhere: Elsewhere) -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        for number in range(2):
            other = elsewhere.start(publish_on_request, "topic")
            assert other.hear() == "ready"
            other.tell(number)
            assert subscriber.receive().data["id"] == number
            other.kill()


def test_topics_do_not_hear_each_other() -> None:
    with joined("one") as (one, hears_one), joined("two") as (two, hears_two):
        one.publish(1)
        two.publish(2)
        assert hears_one.receive().data == 1
        assert hears_two.receive().data == 2
        assert hears_one.try_receive() is None
        assert hears_two.try_receive() is None


def test_domains_do_not_hear_each_other(domain: str) -> None:
    elsewhere = domain + "2"
    with (
        joined() as (publisher, subscriber),
        tb.Publisher("topic", domain=elsewhere) as stranger,
        tb.Subscriber("topic", domain=elsewhere, timeout=PATIENCE) as strange_subscriber,
    ):
        assert stranger.wait_for_subscribers(timeout=PATIENCE)
        assert publisher.publish("here") == 1
        assert stranger.publish("there") == 1
        assert subscriber.receive().data == "here"
        assert strange_subscriber.receive().data == "there"
        assert subscriber.try_receive() is None
