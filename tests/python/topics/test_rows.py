"""Many small messages at once: publish_many() and receive_into()."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, joined, tell

MANY = 500
Made = Callable[[Any], Any]


def poses(count: int, first: int = 0) -> Any:
    return np.arange(first * 7, (first + count) * 7, dtype="float32").reshape(count, 7)


def test_each_row_is_a_message() -> None:
    with joined(publisher={"depth": 100}) as (publisher, subscriber):
        assert publisher.publish_many(poses(3)) == 3
        samples = [subscriber.receive(timeout=PATIENCE) for _ in range(3)]
        assert [sample.header.sequence for sample in samples] == [0, 1, 2]
        for sample, row in zip(samples, poses(3), strict=True):
            assert type(sample.data) is np.ndarray
            assert np.array_equal(sample.data, row)


def ours(array: Any) -> Any:
    return array


def of_torch(array: Any) -> Any:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    return torch.from_numpy(array)


@pytest.mark.parametrize("into", [ours, of_torch])
@pytest.mark.parametrize("of", [ours, of_torch])
def test_rows_are_received_into_an_array(of: Made, into: Made) -> None:
    with joined(publisher={"depth": 100}) as (publisher, subscriber):
        sent = of(poses(5))
        assert publisher.publish_many(sent) == 5
        publisher.publish(poses(6)[5])
        array = into(np.zeros((8, 7), "float32"))
        assert subscriber.receive_into(array, timeout=PATIENCE) == 6
        assert np.array_equal(np.asarray(array)[:6], poses(6))
        assert not np.asarray(array)[6:].any()
        with pytest.raises(tb.Timeout, match="no sample on"):
            subscriber.receive_into(array, timeout=0.01)
        assert subscriber.stats.received == 6


def test_any_messages_are_published_one_by_one() -> None:
    with joined(publisher={"depth": 100}) as (publisher, subscriber):
        messages = [1, "two", {"three": np.ones(3)}]
        assert publisher.publish_many(messages) == 3
        assert publisher.publish_many(number for number in range(2)) == 2
        assert publisher.publish_many([]) == 0
        assert subscriber.receive(timeout=PATIENCE).data == 1
        assert subscriber.receive(timeout=PATIENCE).data == "two"
        assert np.array_equal(subscriber.receive(timeout=PATIENCE).data["three"], np.ones(3))
        assert [subscriber.receive(timeout=PATIENCE).data for _ in range(2)] == [0, 1]


def test_those_that_found_room_in_time_are_counted() -> None:
    with joined(publisher={"depth": 4, "reliable": True}) as (publisher, subscriber):
        assert publisher.publish_many(poses(10), timeout=0.01) == 4
        assert publisher.publish_many(poses(10), timeout=0) == 0
        assert publisher.publish_many(list(range(10)), timeout=0) == 0
        array = np.zeros((10, 7), "float32")
        assert subscriber.receive_into(array, timeout=PATIENCE) == 4
        assert publisher.publish_many(list(range(10)), timeout=0.01) == 4


def receive_all(count: int) -> None:
    with tb.Subscriber("rows", timeout=PATIENCE) as subscriber:
        subscriber.wait_for_publishers()
        array = np.zeros((64, 7), "float32")
        seen = 0
        while seen < count:
            new = subscriber.receive_into(array)
            expected = np.arange(seen * 7, (seen + new) * 7, dtype="float32").reshape(new, 7)
            if not np.array_equal(array[:new], expected):
                tell(["torn", seen, new])
            seen += new
        tell(["ok", subscriber.stats.missed])


def test_nothing_is_lost_between_processes(elsewhere: Elsewhere) -> None:
    reader = elsewhere.start(receive_all, MANY * 20)
    with tb.Publisher("rows", depth=100, reliable=True) as publisher:
        publisher.wait_for_subscribers(timeout=PATIENCE)
        for first in range(0, MANY * 20, MANY):
            assert publisher.publish_many(poses(MANY, first), timeout=PATIENCE) == MANY
        assert reader.hear() == ["ok", 0]


def test_another_message_is_left_to_receive() -> None:
    with joined(publisher={"depth": 100}) as (publisher, subscriber):
        publisher.publish_many(poses(2))
        publisher.publish({"id": 7})
        array = np.zeros((10, 7), "float32")
        assert subscriber.receive_into(array, timeout=PATIENCE) == 2
        with pytest.raises(tb.InvalidArgument, match=r"without tensors.*float32 \(7,\)"):
            subscriber.receive_into(array, timeout=PATIENCE)
        assert subscriber.receive(timeout=PATIENCE).data == {"id": 7}


def read_only() -> Any:
    array = np.zeros((2, 7), "float32")
    array.flags.writeable = False
    return array


def refused(array: Any) -> None:
    with joined() as (_, subscriber), pytest.raises(tb.InvalidArgument, match="receive_into"):
        subscriber.receive_into(array)


@pytest.mark.parametrize(
    "array",
    [
        None,
        [[0.0] * 7],
        b"bytes",
        np.float32(1),
        np.zeros((), "float32"),
        np.zeros((0, 7), "float32"),
        np.zeros((4, 7), "float32")[:, ::2],
        read_only(),
    ],
)
def test_an_array_that_takes_no_rows_is_refused(array: Any) -> None:
    refused(array)


def test_a_torch_tensor_that_takes_no_rows_is_refused(torch: Any) -> None:
    for tensor in (torch.zeros(3, 7).T, torch.zeros(2, 7, requires_grad=True)):
        refused(tensor)


def test_rows_of_a_typed_publisher_have_its_type() -> None:
    @dataclass
    class Pose(tb.Message):
        x: float

    with tb.Publisher("typed", Pose) as publisher:
        assert publisher.publish_many([Pose(x=1.0), Pose(x=2.0)]) == 2
        with pytest.raises(tb.MessageError):
            publisher.publish_many(poses(2))  # type: ignore[arg-type]


def test_a_closed_one_takes_none() -> None:
    publisher = tb.Publisher("closed")
    publisher.close()
    for messages in (poses(2), [1]):
        with pytest.raises(tb.Closed):
            publisher.publish_many(messages)
    subscriber = tb.Subscriber("closed")
    subscriber.close()
    with pytest.raises(tb.Closed):
        subscriber.receive_into(np.zeros((1, 7)))


def test_threads_share_a_publisher() -> None:
    with joined(publisher={"depth": 64, "reliable": True}) as (publisher, subscriber):
        threads = [
            threading.Thread(target=publisher.publish_many, args=(poses(MANY, first),))
            for first in (0, MANY)
        ]
        for thread in threads:
            thread.start()
        array = np.zeros((100, 7), "float32")
        next_of = [0, MANY]
        while sum(next_of) < 3 * MANY:
            for row in array[: subscriber.receive_into(array, timeout=PATIENCE)]:
                thread_of = int(row[0] >= MANY * 7)
                assert row[0] == next_of[thread_of] * 7
                next_of[thread_of] += 1
        for thread in threads:
            thread.join()
