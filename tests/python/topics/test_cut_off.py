"""Reliable publishers and subscribers that stop: `lag_timeout`."""

from __future__ import annotations

import signal
import time

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, joined, tell


def receive_until_the_end() -> None:
    numbers = []
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        tell("ready")
        for sample in subscriber:
            numbers.append(sample.data)
            if sample.data == "last":
                break
            tell(sample.data)
        tell((numbers, subscriber.stats["missed"], subscriber.stats["cut_off"]))


def test_a_process_that_was_stopped_counts_its_loss_and_goes_on(elsewhere: Elsewhere) -> None:
    with tb.Publisher("topic", depth=2, reliable=True, lag_timeout=0.2) as publisher:
        reader = elsewhere.start(receive_until_the_end)
        assert reader.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(0)
        assert reader.hear() == 0
        reader.stop()
        try:
            for number in range(1, 10):
                publisher.publish(number, timeout=PATIENCE)
            assert publisher.stats["cut_off"] == 1
            assert publisher.stats["subscribers"] == 0
        finally:
            reader.signal(signal.SIGCONT)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert publisher.publish("last") == 1
        assert reader.hear() == ([0, "last"], 9, 1)
        reader.finish(quietly=False)  # it logs the cut-off


def subscribe_and_forget() -> None:
    subscriber = tb.Subscriber("topic")
    tell("ready")
    hear()
    del subscriber


def test_a_forgotten_subscriber_blocks_a_publisher_once(elsewhere: Elsewhere) -> None:
    with tb.Publisher("topic", reliable=True, lag_timeout=0.2) as publisher:
        idle = elsewhere.start(subscribe_and_forget)
        assert idle.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        before = time.monotonic()
        for number in range(100):
            publisher.publish(number, timeout=PATIENCE)
        assert time.monotonic() - before < PATIENCE
        assert publisher.stats["waited"] == 1
        assert publisher.stats["cut_off"] == 1
        idle.tell()
        idle.finish(quietly=False)


def test_others_lose_nothing_when_one_is_cut_off(elsewhere: Elsewhere) -> None:
    with joined(publisher={"reliable": True, "lag_timeout": 0.2, "depth": 2}) as (
        publisher,
        subscriber,
    ):
        idle = elsewhere.start(subscribe_and_forget)
        assert idle.hear() == "ready"
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        for number in range(20):
            publisher.publish(number, timeout=PATIENCE)
            assert subscriber.receive().data == number
        assert subscriber.stats["missed"] == 0
        assert subscriber.stats["cut_off"] == 0
        assert publisher.stats["cut_off"] == 1
        idle.tell()
        idle.finish(quietly=False)


def test_a_subscriber_that_takes_a_sample_now_and_then_is_not_cut_off() -> None:
    options = {"reliable": True, "lag_timeout": PATIENCE, "depth": 1, "timeout": 0.01}
    with joined(publisher=options) as (publisher, subscriber):
        publisher.publish(0)
        blocked = 0
        for number in range(1, 5):
            with pytest.raises(tb.Timeout):
                publisher.publish(number)
            assert publisher.stats["blocked_ns"] > 0
            blocked += publisher.stats["blocked_ns"]
            assert subscriber.receive().data == number - 1
            publisher.publish(number)
            assert publisher.stats["blocked_ns"] == 0  # it starts anew
        assert publisher.stats["cut_off"] == 0


def test_what_a_subscriber_holds_stays_when_it_is_cut_off() -> None:
    options = {"reliable": True, "lag_timeout": 0.05, "depth": 1}
    with joined(publisher=options) as (publisher, subscriber):
        frame = publisher.loan((4096,), "uint8")
        frame[:] = 7
        publisher.publish(frame)
        held = subscriber.receive().data
        for number in range(3):
            publisher.publish(number)
        eventually(lambda: subscriber.stats["cut_off"] == 1)
        for _ in range(100):
            fresh = publisher.loan((4096,), "uint8")
            fresh[:] = 8
            del fresh
        assert (held == 7).all()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"lag_timeout": 1}, "not reliable"),
        ({"reliable": True, "lag_timeout": 0}, "more than 0"),
        ({"reliable": True, "lag_timeout": -1}, "more than 0"),
    ],
)
def test_a_lag_timeout_that_makes_no_sense_is_refused(options: dict[str, float], why: str) -> None:
    with pytest.raises(tb.InvalidArgument, match=why):
        tb.Publisher("topic", **options)  # type: ignore[arg-type]


def test_a_lag_timeout_is_a_number() -> None:
    with pytest.raises(TypeError, match="lag_timeout"):
        tb.Publisher("topic", reliable=True, lag_timeout="5")  # type: ignore[arg-type]
