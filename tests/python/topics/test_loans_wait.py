"""Waiting for memory that readers hold: `loan(timeout=)`, and a reliable `publish`."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, joined, tell

# In a process of its own, since a budget is one of the process: room for a few blocks.
SMALL = {"TENSORBUS_BUDGET": str(128 << 20)}
BYTES = 16 << 20


def all_held(publisher: tb.Publisher, subscriber: tb.Subscriber) -> list[Any]:
    """The samples that take all memory of this process."""
    held = []
    with suppress(tb.OutOfMemory):
        while True:
            publisher.publish(publisher.loan(BYTES, "uint8"))
            held.append(subscriber.receive())
    return held


def lend_when_a_thread_lets_go() -> None:
    with joined() as (publisher, subscriber):
        held = all_held(publisher, subscriber)
        with pytest.raises(tb.OutOfMemory):
            publisher.loan(BYTES, "uint8", timeout=0.05)
        with pytest.raises(tb.OutOfMemory):
            publisher.loan(BYTES, "uint8", timeout=0)
        letting_go = threading.Timer(0.2, held.clear)
        letting_go.start()
        assert publisher.loan(BYTES, "uint8", timeout=PATIENCE).shape == (BYTES,)
        letting_go.join()


def test_a_loan_waits_until_a_thread_lets_a_sample_go(elsewhere: Elsewhere) -> None:
    elsewhere.run(lend_when_a_thread_lets_go, env=SMALL)


def hold_until_told() -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        held = []
        while (sample := subscriber.receive()).data is not None:
            held.append(sample)
        del sample
        tell(len(held))
        hear()
        time.sleep(0.2)  # the publisher waits by then
        held.clear()
        hear()


def lend_when_another_process_lets_go() -> None:
    with tb.Publisher("topic", depth=100) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        with suppress(tb.OutOfMemory):
            while True:
                publisher.publish(publisher.loan(BYTES, "uint8"))
        publisher.publish(None)
        hear()
        tell("waiting")
        publisher.loan(BYTES, "uint8", timeout=PATIENCE)
        tell("lent")


def test_a_loan_waits_until_another_process_lets_a_sample_go(elsewhere: Elsewhere) -> None:
    reader = elsewhere.start(hold_until_told)
    publisher = elsewhere.start(lend_when_another_process_lets_go, env=SMALL)
    assert reader.hear() > 2
    publisher.tell()
    assert publisher.hear() == "waiting"
    reader.tell()
    assert publisher.hear() == "lent"
    reader.tell()


def publish_when_a_thread_lets_go() -> None:
    frame = np.zeros(BYTES, np.uint8)
    with joined(publisher={"reliable": True}) as (publisher, subscriber):
        held = all_held(publisher, subscriber)
        with pytest.raises(tb.OutOfMemory):
            publisher.publish(frame)  # without a timeout, at once
        with pytest.raises(tb.OutOfMemory):
            publisher.publish(frame, timeout=0.05)
        letting_go = threading.Timer(0.2, held.clear)
        letting_go.start()
        assert publisher.publish(frame, timeout=PATIENCE) == 1
        letting_go.join()
    with joined("other") as (publisher, subscriber):
        held = all_held(publisher, subscriber)
        before = time.monotonic()
        with pytest.raises(tb.OutOfMemory):
            publisher.publish(frame, timeout=PATIENCE)  # one that is not reliable never waits
        assert time.monotonic() - before < PATIENCE


def test_a_reliable_publisher_waits_for_memory_of_a_copy(elsewhere: Elsewhere) -> None:
    elsewhere.run(publish_when_a_thread_lets_go, env=SMALL)


def publish_until_closed() -> None:
    with joined(publisher={"reliable": True}) as (publisher, subscriber):
        held = all_held(publisher, subscriber)
        closing = threading.Timer(0.2, publisher.close)
        closing.start()
        with pytest.raises(tb.Closed):
            publisher.publish(np.zeros(BYTES, np.uint8), timeout=PATIENCE / 3)
        closing.join()
        del held


def test_close_ends_the_wait_of_a_publish_for_memory(elsewhere: Elsewhere) -> None:
    elsewhere.run(publish_until_closed, env=SMALL)


def test_a_loan_that_can_never_be_had_fails_at_once() -> None:
    with tb.Publisher("topic") as publisher:
        before = time.monotonic()
        with pytest.raises(tb.OutOfMemory):
            publisher.loan(2**50, "uint8", timeout=PATIENCE)
        assert time.monotonic() - before < PATIENCE


def test_a_loan_with_a_timeout_is_a_loan_like_any_other(torch: Any) -> None:
    with tb.Publisher("topic") as publisher:
        assert type(publisher.loan((2, 3), torch.float32, timeout=1)) is torch.Tensor
        assert publisher.loan(like=np.zeros((2, 3)), timeout=1).shape == (2, 3)
        with pytest.raises(TypeError, match="timeout"):
            publisher.loan((2, 3), "uint8", timeout="5")  # type: ignore[arg-type]
