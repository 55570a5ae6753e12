"""Several samples received at once."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, joined
from support.loops import Run, found, started


def data_of(samples: list[tb.Sample]) -> list[object]:
    return [sample.data for sample in samples]


def test_a_batch_has_what_is_there_in_order() -> None:
    with joined(publisher={"depth": 100}) as (publisher, subscriber):
        sent = [b"", b"bytes", b"\xc4\x01", "text", 7, None, {"a": [1, (2, 3)]}, bytes(300)]
        for item in sent:
            publisher.publish(item)
        received: list[object] = []
        while len(received) < len(sent):  # the memory of the long one may come after it
            received += data_of(subscriber.receive_many(64))
        assert received == sent
        assert subscriber.try_receive_many(64) == []


def test_a_batch_has_no_more_than_was_asked_for() -> None:
    with joined(publisher={"depth": 100}) as (publisher, subscriber):
        for number in range(5):
            publisher.publish(number)
        assert data_of(subscriber.receive_many(2)) == [0, 1]
        assert data_of(subscriber.try_receive_many(2)) == [2, 3]
        assert data_of(subscriber.receive_many(2)) == [4]


@pytest.mark.parametrize("max_count", [0, -1, 1.5, "2"])
def test_what_is_no_number_of_samples_is_refused(max_count: object) -> None:
    with joined() as (_, subscriber), pytest.raises(tb.InvalidArgument, match="max_count"):
        subscriber.receive_many(max_count)  # type: ignore[arg-type]


def test_a_batch_waits_for_its_first_sample() -> None:
    with joined(publisher={"depth": 100}) as (publisher, subscriber):
        with pytest.raises(tb.Timeout, match="no sample on"):
            subscriber.receive_many(10, timeout=0.01)
        publishing = threading.Thread(target=publisher.publish, args=(7,))
        publishing.start()
        assert data_of(subscriber.receive_many(10, timeout=PATIENCE)) == [7]
        publishing.join()


def test_tensors_of_a_batch_are_held_until_they_go() -> None:
    with joined(publisher={"depth": 100}, subscriber={"max_held": 3}) as (publisher, subscriber):
        for number in range(5):
            publisher.publish(np.full(1000, number))
        samples = subscriber.receive_many(64)
        assert [int(sample.data[0]) for sample in samples] == [0, 1, 2]
        with pytest.raises(tb.HoldLimit):
            subscriber.receive_many(64)
        samples.clear()
        assert [int(sample.data[0]) for sample in subscriber.receive_many(64)] == [3, 4]


def test_a_reliable_publisher_goes_on_when_a_batch_is_taken() -> None:
    with joined(publisher={"depth": 4, "reliable": True}) as (publisher, subscriber):
        publishing = threading.Thread(target=lambda: [publisher.publish(n) for n in range(500)])
        publishing.start()
        numbers: list[object] = []
        while len(numbers) < 500:
            numbers += data_of(subscriber.receive_many(64, timeout=PATIENCE))
        publishing.join()
        assert numbers == list(range(500))


def test_a_closed_subscriber_has_no_batches() -> None:
    with joined() as (_, subscriber):
        subscriber.close()
        with pytest.raises(tb.Closed):
            subscriber.receive_many(1)


def test_a_task_awaits_a_batch(run: Run) -> None:
    async def main() -> None:
        with found(publisher={"depth": 100}) as (publisher, subscriber):
            receiving = await started(subscriber.receive_many(10))
            publisher.publish(1)
            assert data_of(await receiving) == [1]
            for number in range(12):
                publisher.publish(number)
            assert data_of(await subscriber.receive_many(10)) == list(range(10))
            assert data_of(await subscriber.receive_many(10)) == [10, 11]
            with pytest.raises(tb.Timeout):
                await subscriber.receive_many(10, 0.01)

    run(main())


def test_a_task_that_is_cancelled_has_taken_nothing(run: Run) -> None:
    async def main() -> None:
        with found(publisher={"depth": 100}) as (publisher, subscriber):
            receiving = await started(subscriber.receive_many(10))
            receiving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receiving
            publisher.publish(1)
            assert data_of(await subscriber.receive_many(10, PATIENCE)) == [1]

    run(main())
