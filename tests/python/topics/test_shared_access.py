"""What is received to write for all is written for all, if its publisher wants that."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.access import LIBRARIES, all_are, ask, loan_with, start_holder
from support.harness import PATIENCE, Elsewhere, eventually, hear, joined


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_shared_write_is_seen_by_all(
    elsewhere: Elsewhere, torch: ModuleType, library: str
) -> None:
    with tb.Publisher("topic", shared=True) as publisher:
        writing, also_shared, reading, private = (
            start_holder(elsewhere, access) for access in ("shared", "shared", "read", "private")
        )
        assert publisher.wait_for_subscribers(4, timeout=PATIENCE)
        loan = loan_with(publisher, library, 1)
        publisher.publish(loan)
        for other in (writing, also_shared, reading, private):
            assert ask(other, "receive") == (1, 1)
        assert ask(private, 40) == (40, 40)  # before the others, whose pages it would show
        for number, writer in ((50, writing), (60, also_shared)):
            assert ask(writer, number) == (number, number)
            for other in (writing, also_shared, reading):
                assert ask(other, "look") == (number, number)
            assert all_are(loan, number)
        assert ask(private, "look") == (40, 40)
        loan[:] = 70  # the publisher is one of them
        for other in (writing, also_shared, reading):
            assert ask(other, "look") == (70, 70)


def test_shared_history_of_a_reliable_publisher_comes_as_it_was_written(
    elsewhere: Elsewhere,
) -> None:
    with tb.Publisher("topic", shared=True, reliable=True, history=2, depth=2) as publisher:
        for number in range(1, 4):
            publisher.publish(loan_with(publisher, "numpy", number))
        early = start_holder(elsewhere, "shared")
        assert ask(early, "receive") == (2, 2)
        assert ask(early, 20) == (20, 20)
        late = start_holder(elsewhere, "read")
        assert ask(late, "receive") == (20, 20)
        assert ask(late, "receive") == (3, 3)
        assert ask(early, "receive") == (3, 3)
        publisher.publish(loan_with(publisher, "numpy", 4))
        for other in (early, late):
            assert ask(other, "receive") == (4, 4)
        assert publisher.stats["dropped_depth"] == 0


def test_a_publisher_that_is_not_shared_refuses_and_says_what_to_do(elsewhere: Elsewhere) -> None:
    with tb.Subscriber("topic", access="shared") as subscriber:
        closed_one = elsewhere.start(publish_when_told, "topic", False)
        eventually(lambda: subscriber.stats["refused"] == 1)
        for way_out in ("make it shared (shared=True)", "access read or private"):
            assert way_out in subscriber.stats["last_refusal"]
        with pytest.raises(tb.Timeout, match=r"a publisher refused: .*shared"):
            subscriber.receive(timeout=0.01)
        assert subscriber.stats["publishers"] == 0
        # Others of the topic are not touched.
        open_one = elsewhere.start(publish_when_told, "topic", True)
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        open_one.tell(5)
        data = subscriber.receive(timeout=PATIENCE).data
        data[:] = 6
        assert all_are(data, 6)
        closed_one.finish(quietly=False)  # it logs the refusal


def publish_when_told(topic: str, shared: bool) -> None:
    with tb.Publisher(topic, shared=shared) as publisher:
        while True:
            publisher.publish(np.full(1000, hear()))


@pytest.mark.parametrize("wrap", [lambda loan: loan, lambda loan: {"a": [loan[5:]]}])
def test_a_loan_is_for_its_own_kind_of_publisher(wrap: Any) -> None:
    with (
        joined("ordinary") as (ordinary, hears_ordinary),
        joined("open", publisher={"shared": True}) as (shared, hears_shared),
        tb.Publisher("open too", shared=True) as also_shared,
    ):
        ordinary_loan = loan_with(ordinary, "numpy", 1)
        shared_loan = loan_with(shared, "numpy", 2)
        with pytest.raises(tb.InvalidArgument, match=r"belongs to one that is not.*publish a copy"):
            shared.publish(wrap(ordinary_loan))
        for loan in (shared_loan, loan_with(also_shared, "numpy", 3)):
            with pytest.raises(tb.InvalidArgument, match=r"loan.*shared.*publish a copy"):
                ordinary.publish(wrap(loan))
        # A copy goes everywhere, and the loans are not spent.
        assert shared.publish(wrap(ordinary_loan.copy())) == 1
        assert ordinary.publish(wrap(ordinary_loan)) == 1
        assert shared.publish(wrap(shared_loan)) == 1
        assert also_shared.publish(wrap(loan_with(shared, "numpy", 4))) == 0
        for subscriber, count in ((hears_ordinary, 1), (hears_shared, 2)):
            for _ in range(count):
                assert subscriber.receive().data is not None


def test_an_async_subscriber_is_refused_like_any_other() -> None:
    async def ask_for_too_much() -> None:
        async with tb.AsyncSubscriber("topic", access="shared", timeout=0.05) as subscriber:
            while not subscriber.stats["refused"]:
                await asyncio.sleep(0.002)
            with pytest.raises(tb.Timeout, match=r"a publisher refused: .*shared"):
                await subscriber.receive()

    with tb.Publisher("topic"):
        asyncio.run(ask_for_too_much())
