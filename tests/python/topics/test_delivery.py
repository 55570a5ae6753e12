"""What is delivered, what is dropped, and how that is counted."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, joined, tell


def drain(subscriber: tb.Subscriber) -> list[Any]:
    received = []
    while (sample := subscriber.try_receive()) is not None:
        received.append(sample.data)
    return received


def test_a_full_queue_drops_its_oldest_samples() -> None:
    with joined(publisher={"depth": 3}) as (publisher, subscriber):
        assert [publisher.publish(number) for number in range(10)] == [1] * 10
        assert drain(subscriber) == [7, 8, 9]
        assert publisher.stats["dropped_depth"] == 7
        assert publisher.stats["sent"] == publisher.stats["delivered"] == 10
        assert subscriber.stats["received"] == 3
        assert subscriber.stats["missed"] == 7


def test_a_subscriber_may_choose_its_own_depth() -> None:
    with joined(publisher={"depth": 3}, subscriber={"depth": 5}) as (publisher, subscriber):
        for number in range(10):
            publisher.publish(number)
        assert drain(subscriber) == [5, 6, 7, 8, 9]


def test_every_gap_is_counted() -> None:
    with joined(publisher={"depth": 1}) as (publisher, subscriber):
        for gap in (0, 3, 0, 5):
            for _ in range(gap):
                publisher.publish("dropped")
            publisher.publish("newest")
            assert subscriber.receive().data == "newest"
        assert subscriber.stats["missed"] == 8
        assert subscriber.stats["received"] == 4


def test_dropped_samples_give_their_memory_back() -> None:
    with joined(publisher={"depth": 1}) as (publisher, subscriber):
        for _ in range(10):
            publisher.publish(np.zeros(100_000, np.uint8))
        assert 100_000 <= publisher.stats["bytes_in_flight"] < 200_000
        subscriber.receive()
        assert publisher.stats["bytes_in_flight"] == 0


def test_a_slow_subscriber_costs_only_itself() -> None:
    with joined(publisher={"depth": 2}) as (publisher, slow):
        with tb.Subscriber("topic", depth=100) as fast:
            assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
            for number in range(50):
                assert publisher.publish(number) == 2
            assert [fast.receive(PATIENCE).data for _ in range(50)] == list(range(50))
            assert fast.stats["missed"] == 0
        assert drain(slow) == [48, 49]


def test_samples_are_dropped_for_a_subscriber_that_holds_too_many() -> None:
    with joined(publisher={"depth": 1}, subscriber={"max_held": 1}) as (publisher, subscriber):
        publisher.publish(np.zeros(10))
        held = subscriber.receive().data
        for number in range(5):
            publisher.publish(np.full(10, number))
        assert publisher.stats["dropped_held"] + publisher.stats["dropped_depth"] >= 4
        del held
        publisher.publish(np.full(10, 99))
        assert subscriber.receive().data[0] == 99


def test_a_late_subscriber_gets_the_history_and_then_the_rest() -> None:
    with tb.Publisher("topic", history=3) as publisher:
        for number in range(10):
            publisher.publish(number)
        with tb.Subscriber("topic", timeout=PATIENCE) as late:
            assert [late.receive().data for _ in range(3)] == [7, 8, 9]
            publisher.publish(10)
            sample = late.receive()
            assert (sample.data, sample.header.sequence) == (10, 10)
            assert late.stats["missed"] == 0


def test_history_is_bounded_by_the_depth_of_the_subscriber() -> None:
    with tb.Publisher("topic", history=5) as publisher:
        for number in range(10):
            publisher.publish(number)
        with tb.Subscriber("topic", depth=2, timeout=PATIENCE) as late:
            assert [late.receive().data for _ in range(2)] == [8, 9]


def test_history_keeps_loans_too_and_lets_them_go() -> None:
    with tb.Publisher("topic", history=1) as publisher:
        loan = publisher.loan(1000, dtype="uint8")
        loan[:] = 7
        publisher.publish(loan)
        del loan
        with tb.Subscriber("topic", timeout=PATIENCE) as late:
            assert (late.receive().data == 7).all()
            assert publisher.stats["bytes_in_flight"] >= 1000
            publisher.publish("takes its place")
            assert late.receive().data == "takes its place"
            assert publisher.stats["bytes_in_flight"] < 1000


def test_without_history_a_late_subscriber_gets_nothing_old() -> None:
    with tb.Publisher("topic") as publisher:
        assert publisher.publish("too early") == 0
        with tb.Subscriber("topic", timeout=PATIENCE) as late:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish("in time")
            assert late.receive().data == "in time"
            assert late.stats["missed"] == 0


def test_a_reliable_publisher_drops_nothing() -> None:
    with joined(publisher={"depth": 2, "reliable": True}) as (publisher, subscriber):
        received: list[int] = []

        def receive() -> None:
            received.extend(subscriber.receive().data for _ in range(200))

        thread = threading.Thread(target=receive)
        thread.start()
        for number in range(200):
            publisher.publish(number, timeout=PATIENCE)
        thread.join(PATIENCE)
        assert received == list(range(200))
        assert subscriber.stats["missed"] == 0
        assert publisher.stats["dropped_depth"] == 0


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_reliable_publisher_that_finds_no_room_gives_up_and_nobody_gets_it(
    timeout: float,
) -> None:
    with (
        joined(publisher={"depth": 1, "reliable": True}) as (publisher, full),
        tb.Subscriber("topic", depth=10) as other,
    ):
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        publisher.publish(0)
        with pytest.raises(tb.Timeout, match="no room in time, and the sample was not sent"):
            publisher.publish(1, timeout=timeout)
        assert publisher.stats["timed_out"] == 1
        assert full.receive().data == 0
        publisher.publish(2, timeout=timeout)
        assert full.receive().data == 2
        assert [other.receive(PATIENCE).data for _ in range(2)] == [0, 2]
        assert other.stats["missed"] == full.stats["missed"] == 0


def _hold_a_subscriber(reliable: bool) -> None:
    with tb.Subscriber("topic", depth=1, reliable=reliable):
        tell("ready")
        hear()


def test_a_stopped_viewer_does_not_hold_a_reliable_publisher_up(elsewhere: Elsewhere) -> None:
    viewer = elsewhere.start(_hold_a_subscriber, False)
    assert viewer.hear() == "ready"
    with joined(publisher={"depth": 64, "reliable": True}) as (publisher, recorder):
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        viewer.stop()
        for number in range(60):
            publisher.publish(number, timeout=0)
        assert drain(recorder) == list(range(60))
        assert publisher.stats["waited"] == 0
        assert publisher.stats["dropped_depth"] == 59
    viewer.kill()


def test_a_stopped_subscriber_that_a_reliable_publisher_waits_for_is_named(
    elsewhere: Elsewhere,
) -> None:
    idle = elsewhere.start(_hold_a_subscriber, True)
    assert idle.hear() == "ready"
    with tb.Publisher("topic", reliable=True) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        idle.stop()
        publisher.publish(0)
        name = Path(f"/proc/{idle.pid}/comm").read_text().strip()
        with pytest.raises(tb.Timeout, match=rf"process {idle.pid} \({name}\) has had none for"):
            publisher.publish(1, timeout=0.01)
        assert publisher.stats["blocked_by"] == idle.pid
        assert publisher.stats["blocked_ns"] >= 10_000_000
        idle.kill()
        eventually(lambda: publisher.stats["blocked_by"] == 0)
        assert publisher.stats["blocked_ns"] == 0


def test_the_timeout_of_the_publisher_is_the_default() -> None:
    options = {"depth": 1, "reliable": True, "timeout": 0}
    with joined(publisher=options) as (publisher, _):
        publisher.publish(0)
        with pytest.raises(tb.Timeout):
            publisher.publish(1)


def test_a_loan_that_timed_out_can_be_published_later() -> None:
    with joined(publisher={"depth": 1, "reliable": True}) as (publisher, subscriber):
        publisher.publish("first")
        loan = publisher.loan(1000, dtype="uint8")
        loan[:] = 7
        for _ in range(3):
            with pytest.raises(tb.Timeout):
                publisher.publish(loan, timeout=0)
        loan[0] = 8
        assert subscriber.receive().data == "first"
        publisher.publish(loan, timeout=0)
        assert subscriber.receive().data.tolist() == [8] + [7] * 999
        assert publisher.stats["bytes_copied"] == 0


@pytest.mark.parametrize("end", ["receive", "close"])
def test_a_waiting_publisher_goes_on_when_its_subscriber_does(end: str) -> None:
    with joined(publisher={"depth": 1, "reliable": True}) as (publisher, subscriber):
        publisher.publish(0)
        reached: list[int] = []
        thread = threading.Thread(
            target=lambda: reached.append(publisher.publish(1, timeout=PATIENCE))
        )
        thread.start()
        eventually(lambda: publisher.stats["waiting"] == 1)
        if end == "receive":
            assert subscriber.receive().data == 0
        else:
            subscriber.close()
        thread.join(PATIENCE)
        assert reached == [1 if end == "receive" else 0]
        assert publisher.stats["waited"] == 1
        assert publisher.stats["waiting"] == 0


def test_a_waiting_publisher_that_is_closed_says_so() -> None:
    with joined(publisher={"depth": 1, "reliable": True}) as (publisher, _):
        publisher.publish(0)
        errors: list[tb.Error] = []

        def publish() -> None:
            try:
                publisher.publish(1, timeout=PATIENCE)
            except tb.Error as error:
                errors.append(error)

        thread = threading.Thread(target=publish)
        thread.start()
        eventually(lambda: publisher.stats["waiting"] == 1)
        publisher.close()
        thread.join(PATIENCE)
        assert [type(error) for error in errors] == [tb.Closed]


def test_publish_says_how_many_have_it() -> None:
    with tb.Publisher("topic") as publisher:
        assert publisher.publish(0) == 0
        with tb.Subscriber("topic"), tb.Subscriber("topic"):
            assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
            assert publisher.publish(1) == 2
        eventually(lambda: publisher.stats["subscribers"] == 0)
        assert publisher.publish(2) == 0


def test_waiting_for_subscribers_ends_with_their_number_or_the_time() -> None:
    with tb.Publisher("topic") as publisher:
        assert publisher.wait_for_subscribers(0, timeout=0)
        assert not publisher.wait_for_subscribers(timeout=0)
        assert not publisher.wait_for_subscribers(timeout=0.01)
        with tb.Subscriber("topic"):
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            assert not publisher.wait_for_subscribers(2, timeout=0)
            assert publisher.stats["subscribers"] == 1


def test_the_counters_have_the_names_that_are_documented() -> None:
    with joined() as (publisher, subscriber):
        assert set(publisher.stats) >= {
            *("sent", "delivered", "dropped_depth", "dropped_held", "waited", "waiting"),
            *("timed_out", "bytes_copied", "bytes_in_flight", "subscribers"),
        }
        assert set(subscriber.stats) >= {"received", "missed", "bad", "held", "publishers"}
        assert subscriber.stats["bad"] == 0
        assert publisher.stats["bad_returns"] == 0
