"""Ctrl-C ends whatever waits, at once."""

from __future__ import annotations

import queue
import signal
import sys
import threading

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, joined, tell
from support.waits import BLOCKING, IN_A_LOOP, Wait, receive, receive_by_looking


def interrupted(wait: Wait, timeout: float | None) -> None:
    try:
        wait(lambda: tell("ready"), timeout)
    except KeyboardInterrupt:
        tell("interrupted")


@pytest.mark.parametrize("timeout", [None, PATIENCE])
@pytest.mark.parametrize("wait", BLOCKING + IN_A_LOOP)
def test_ctrl_c_ends_a_wait(elsewhere: Elsewhere, wait: Wait, timeout: float | None) -> None:
    other = elsewhere.start(interrupted, wait, timeout)
    assert other.hear() == "ready"
    if wait is not receive_by_looking:
        other.wait_until_asleep()
    other.signal(signal.SIGINT)
    assert other.hear() == "interrupted"


def test_a_loan_that_ctrl_c_kept_from_being_published_is_still_ours(elsewhere: Elsewhere) -> None:
    def publish_reliably() -> None:
        with joined(publisher={"reliable": True, "depth": 1}) as (publisher, subscriber):
            loan = publisher.loan(10, dtype="uint8")
            loan[:] = 7
            publisher.publish(0)
            tell("ready")
            try:
                publisher.publish(loan)
            except KeyboardInterrupt:
                tell("interrupted")
            assert subscriber.receive().data == 0
            publisher.publish(loan, timeout=PATIENCE)
            assert subscriber.receive().data.tolist() == [7] * 10

    other = elsewhere.start(publish_reliably)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"


@pytest.mark.parametrize("wait", BLOCKING)
def test_a_signal_that_comes_to_another_thread_ends_the_wait_of_the_main_thread(
    elsewhere: Elsewhere, wait: Wait
) -> None:
    """No system call of the main thread ends early then; nor does one that is about to begin."""

    def interrupted_from_aside(wait: Wait) -> None:
        def send() -> None:
            waiting.wait(PATIENCE)
            if hear() == "send":
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        def ready() -> None:
            waiting.set()
            tell("ready")

        waiting = threading.Event()
        sender = threading.Thread(target=send)
        sender.start()
        try:
            wait(ready, None)
        except KeyboardInterrupt:
            tell("interrupted")
        sender.join()

    other = elsewhere.start(interrupted_from_aside, wait)
    assert other.hear() == "ready"
    if wait is not receive_by_looking:
        other.wait_until_asleep()
    other.tell("send")
    assert other.hear() == "interrupted"


def test_ctrl_c_ends_the_wait_of_the_main_thread_and_the_others_go_on(elsewhere: Elsewhere) -> None:
    def receive_in_threads() -> None:
        def receive() -> None:
            for _ in range(2):
                received.put(subscriber.receive().data)

        received: queue.SimpleQueue[int] = queue.SimpleQueue()
        with (
            tb.Subscriber("topic", timeout=PATIENCE) as subscriber,
            tb.Publisher("full", reliable=True, depth=1, timeout=PATIENCE) as publisher,
            tb.Subscriber("full", timeout=PATIENCE) as late,
        ):
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(0)
            waiting = [threading.Thread(target=receive) for _ in range(3)]
            waiting.append(threading.Thread(target=publisher.publish, args=(1,)))
            for thread in waiting:
                thread.start()
            tell("ready")
            for _ in range(3):
                try:
                    subscriber.wait_for_publishers(2)
                except KeyboardInterrupt:
                    assert all(thread.is_alive() for thread in waiting)
                    tell("interrupted")
            assert [late.receive().data, late.receive().data] == [0, 1]
            for thread in waiting:
                thread.join(PATIENCE)
            tell(sorted(received.get_nowait() for _ in range(6)))

    with tb.Publisher("topic") as publisher:
        other = elsewhere.start(receive_in_threads)
        assert other.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(3):
            other.signal_when_asleep(signal.SIGINT)
            assert other.hear() == "interrupted"
        for number in range(6):
            publisher.publish(number)
        assert other.hear() == list(range(6))


@pytest.mark.parametrize("wait", BLOCKING + IN_A_LOOP)
def test_a_handler_of_sigterm_that_exits_ends_a_wait(elsewhere: Elsewhere, wait: Wait) -> None:
    def wait_for_the_end(wait: Wait) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        wait(lambda: tell("ready"), None)

    other = elsewhere.start(wait_for_the_end, wait)
    assert other.hear() == "ready"
    if wait is not receive_by_looking:
        other.wait_until_asleep()
    other.signal(signal.SIGTERM)
    assert other.end() == (3, "")


def test_sigterm_without_a_handler_ends_a_wait(elsewhere: Elsewhere) -> None:
    def wait_for_the_end() -> None:
        receive(lambda: tell("ready"), None)

    other = elsewhere.start(wait_for_the_end)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGTERM)
    assert other.end() == (-signal.SIGTERM, "")


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


@pytest.mark.parametrize("use", ["qsize", "task_done", "put", "put with a timeout"])
def test_ctrl_c_ends_what_a_stopped_host_of_a_queue_does_not_answer(
    elsewhere: Elsewhere, use: str
) -> None:
    def host() -> None:
        with tb.Queue(maxsize=1) as line:
            tell(line.address)
            hear()
            line.shutdown(immediate=True)

    def ask(address: str, use: str) -> None:
        line = tb.Queue.open(address)
        if use == "task_done":
            line.put(0)
            line.get()
        tell("open")
        hear()
        tell("ready")
        try:
            if use == "put with a timeout":
                line.put(1, timeout=0.01)
            else:
                getattr(line, use)(*([1] if use == "put" else []))
        except KeyboardInterrupt as interrupt:
            tell(interrupt.__context__)  # what the wait ended with, if that came first

    hosting = elsewhere.start(host)
    asking = elsewhere.start(ask, hosting.hear(), use)
    assert asking.hear() == "open"
    hosting.stop()
    asking.tell()
    assert asking.hear() == "ready"
    asking.signal_when_asleep(signal.SIGINT)
    assert asking.hear() is None
    hosting.signal(signal.SIGCONT)
    hosting.tell()
