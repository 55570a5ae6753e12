"""Received tensors and arrays can be written to, by whichever way they came."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, joined
from support.private_pages import SIZES

pytestmark = pytest.mark.usefixtures("nothing_stays_private")


def received_by_queue(data: Any) -> Any:
    with tb.Queue() as queue:
        queue.put(data)
        return queue.get()


def received_by_handle(data: Any) -> Any:
    with tb.share(data) as shared:
        return tb.attach(shared.handle)


def halves(data: Any) -> Any:
    data /= 2
    return data


def received_from_a_pool(data: Any) -> Any:
    with tb.WorkerPool(halves, workers=1) as pool:
        return pool.map([data * 2])[0]


def received_from_a_service(data: Any) -> Any:
    node = tb.Node("server")
    node.create_service("halve", callback=halves, mode="sync")
    server = threading.Thread(target=node.spin, kwargs={"timeout": PATIENCE})
    server.start()
    try:
        with tb.Client("halve", timeout=PATIENCE) as client:
            return client.call_sync(data * 2)
    finally:
        node.close_sync()
        server.join()


WAYS = (received_by_queue, received_by_handle, received_from_a_pool, received_from_a_service)


@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.parametrize("receive", WAYS, ids=lambda way: way.__name__)
def test_it_holds_for_everything_received(
    torch: ModuleType, receive: Callable[[Any], Any], size: int
) -> None:
    received = receive(torch.ones(size))
    received += 1
    assert received.eq(2).all()
    received.div_(255)


def plus_one(array: Any) -> Any:
    """Writes to an array through PyTorch, which warns of a read-only array."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return torch.from_numpy(array).add_(1).numpy()


def received_by_topic(data: Any) -> Any:
    with joined() as (publisher, subscriber):
        publisher.publish(data)
        return subscriber.receive().data


def received_as_an_array(data: Any) -> Any:
    with joined() as (publisher, subscriber):
        publisher.publish(data)
        return np.asarray(subscriber.receive())


def received_as_memory(data: Any) -> Any:
    with joined(subscriber={"library": "dlpack"}) as (publisher, subscriber):
        publisher.publish(data)
        return np.frombuffer(subscriber.receive().data, data.dtype)


ARRAY_WAYS = (*WAYS, received_by_topic, received_as_an_array, received_as_memory)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("receive", ARRAY_WAYS, ids=lambda way: way.__name__)
def test_an_array_can_be_written_to_through_pytorch(
    torch: ModuleType, receive: Callable[[Any], Any], size: int
) -> None:
    array = receive(np.ones(size, np.float32))
    assert (plus_one(array) == 2).all()
    assert (array == 2).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("receive", ARRAY_WAYS, ids=lambda way: way.__name__)
def test_an_array_can_be_written_to(receive: Callable[[Any], Any], size: int) -> None:
    sent = np.ones(size, np.float32)
    array = receive(sent)
    array += 1
    np.negative(array, out=array)
    memoryview(array)[-1] = 5
    assert (array[:-1] == -2).all()
    assert array[-1] == 5
    assert (sent == 1).all()


@pytest.mark.parametrize("size", SIZES)
def test_a_task_of_a_pool_writes_to_its_array(torch: ModuleType, size: int) -> None:
    with tb.WorkerPool(plus_one, workers=1) as pool:
        assert (pool.map([np.ones(size, np.float32)])[0] == 2).all()


@pytest.mark.parametrize("size", [20, 5000])
def test_arrays_that_overlap_in_a_message_show_each_others_writes(
    torch: ModuleType, size: int
) -> None:
    whole = np.zeros(size, np.float32)
    with joined() as (publisher, subscriber):
        publisher.publish({"whole": whole, "first": whole[:3], "third": whole[2:6:2]})
        data = subscriber.receive().data
        plus_one(data["first"])
        plus_one(data["third"])
        assert data["whole"][:6].tolist() == [1, 1, 2, 0, 1, 0]
        third = data.pop("third")
        del data
        gc.collect()
        assert third.tolist() == [2, 1]


def test_arrays_received_for_reading_are_read_only() -> None:
    with joined(subscriber={"access": "read"}) as (publisher, subscriber):
        publisher.publish(np.zeros(5000))
        array = subscriber.receive().data
        with pytest.raises(ValueError, match="read-only"):
            array += 1


def test_a_tensor_made_from_a_received_array_can_be_written_to(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(np.zeros(5000))
        array = subscriber.receive().data
        with warnings.catch_warnings():  # PyTorch warns once in a process
            warnings.simplefilter("ignore")
            tensor = torch.from_numpy(array)
        tensor += 1
        assert (array == 1).all()
