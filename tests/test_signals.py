"""Ctrl-C ends whatever waits."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

import tensorbus as tb
from harness import PATIENCE, Elsewhere, hear, tell


def receive() -> None:
    with tb.Subscriber("topic") as subscriber:
        tell("ready")
        try:
            subscriber.receive()
        except KeyboardInterrupt:
            tell("interrupted")


def iterate() -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        tell("ready")
        try:
            for _ in subscriber:
                pass
        except KeyboardInterrupt:
            tell("interrupted")


def wait_for_subscribers() -> None:
    with tb.Publisher("topic") as publisher:
        tell("ready")
        try:
            publisher.wait_for_subscribers()
        except KeyboardInterrupt:
            tell("interrupted")


def wait_for_publishers() -> None:
    with tb.Subscriber("topic") as subscriber:
        tell("ready")
        try:
            subscriber.wait_for_publishers(timeout=PATIENCE)
        except KeyboardInterrupt:
            tell("interrupted")


def publish_reliably() -> None:
    with tb.Publisher("topic", reliable=True, depth=1) as publisher, tb.Subscriber("topic"):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        loan = publisher.loan(10, dtype="uint8")
        publisher.publish(0)
        tell("ready")
        try:
            publisher.publish(loan)
        except KeyboardInterrupt:
            tell("interrupted")
        try:  # it was not published, so it still can be
            publisher.publish(loan, timeout=0)
        except tb.Timeout:
            tell("still ours")


@pytest.mark.parametrize(
    "wait", [receive, iterate, wait_for_subscribers, wait_for_publishers, publish_reliably]
)
def test_ctrl_c_ends_a_wait(elsewhere: Elsewhere, wait: Callable[[], None]) -> None:
    other = elsewhere.start(wait)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"
    if wait is publish_reliably:
        assert other.hear() == "still ours"


def test_a_wait_goes_on_after_a_signal_that_was_handled(elsewhere: Elsewhere) -> None:
    def receive_in_spite_of_signals() -> None:
        signal.signal(signal.SIGUSR1, lambda *_: tell("handled"))
        with tb.Subscriber("topic") as subscriber:
            tell("ready")
            tell(subscriber.receive().data)

    with tb.Publisher("topic") as publisher:
        other = elsewhere.start(receive_in_spite_of_signals)
        assert other.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(3):
            other.signal_when_asleep(signal.SIGUSR1)
            assert other.hear() == "handled"
        publisher.publish(7)
        assert other.hear() == 7


def test_an_error_of_a_handler_ends_a_wait_and_the_bus_goes_on(elsewhere: Elsewhere) -> None:
    def receive_again() -> None:
        def handler(*_: object) -> None:
            raise ArithmeticError

        signal.signal(signal.SIGUSR1, handler)
        with tb.Subscriber("topic") as subscriber:
            tell("ready")
            try:
                subscriber.receive()
            except ArithmeticError:
                tell("raised")
            tell(subscriber.receive().data)

    with tb.Publisher("topic") as publisher:
        other = elsewhere.start(receive_again)
        assert other.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        other.signal_when_asleep(signal.SIGUSR1)
        assert other.hear() == "raised"
        publisher.publish(7)
        assert other.hear() == 7


def test_a_stopped_process_goes_on_where_it_was(elsewhere: Elsewhere) -> None:
    def receive_three() -> None:
        with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
            tell("ready")
            tell([subscriber.receive().data for _ in range(3)])
            hear()

    with tb.Publisher("topic") as publisher:
        other = elsewhere.start(receive_three)
        assert other.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        other.signal_when_asleep(signal.SIGSTOP)
        for number in range(3):
            assert publisher.publish(number) == 1
        other.signal(signal.SIGCONT)
        assert other.hear() == [0, 1, 2]
