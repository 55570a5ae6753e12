"""The three ways to receive: to read, to write for oneself, to write for all."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.access import LIBRARIES, WRITABLE, all_are, loan_with, ones
from support.harness import PATIENCE, in_a_fork, joined


@pytest.mark.parametrize("access", ["read", *WRITABLE])
def test_what_is_not_to_be_written_is_flagged_so(access: str) -> None:
    structured = np.zeros(3, np.dtype([("id", "u1"), ("at", "<f4")]))
    message = {"plain": np.arange(4), "structured": structured, "buffer": bytearray(8)}
    with joined(publisher={"shared": True}, subscriber={"access": access}) as (
        publisher,
        subscriber,
    ):
        publisher.publish(message)
        data = subscriber.receive().data
    writable = access != "read"
    for array in (data["plain"], data["structured"], np.asarray(data["buffer"])):
        assert array.flags.writeable == writable
    for array in (data["plain"], data["buffer"]):
        assert memoryview(array).readonly != writable
    if writable:
        data["plain"][1] = 9
        data["structured"]["at"] = 0.5
        data["buffer"][3] = 7
        assert data["plain"].tolist() == [0, 9, 2, 3]
        assert data["structured"]["at"].tolist() == [0.5] * 3
        assert data["buffer"].tolist() == [0, 0, 0, 7, 0, 0, 0, 0]


@pytest.mark.parametrize("access", ["read", *WRITABLE])
def test_a_dlpack_object_is_flagged_like_an_array(access: str) -> None:
    with joined(publisher={"shared": True}, subscriber={"access": access, "library": "dlpack"}) as (
        publisher,
        subscriber,
    ):
        publisher.publish(np.arange(4, dtype=np.int32))
        sample = subscriber.receive()
    writable = access != "read"
    view = memoryview(sample.data)
    arrays = [np.asarray(sample.data), np.from_dlpack(sample.data), np.from_dlpack(sample)]
    assert view.readonly != writable
    # NumPy before 2.1 has what comes by DLPack for read-only.
    by_dlpack = writable and np.lib.NumpyVersion(np.__version__) >= "2.1.0"
    assert [array.flags.writeable for array in arrays] == [writable, by_dlpack, by_dlpack]
    if writable:
        view[2] = 50
        assert all(array.tolist() == [0, 1, 50, 3] for array in arrays)


@pytest.mark.parametrize("access", ["write", "", "READ", "readwrite", None, 1])
def test_an_access_that_there_is_not_is_refused_with_those_that_there_are(access: Any) -> None:
    for kind in (tb.Subscriber, tb.AsyncSubscriber):
        with pytest.raises(tb.InvalidArgument, match=r"'read', 'private', 'shared'") as refusal:
            kind("topic", access=access)
        assert f"access={access!r}" in str(refusal.value)


@pytest.mark.parametrize("access", WRITABLE)
@pytest.mark.parametrize("library", LIBRARIES)
def test_what_was_written_is_what_is_published_again(
    torch: ModuleType, library: str, access: str
) -> None:
    with (
        joined("in", publisher={"shared": True}, subscriber={"access": access}) as (source, taker),
        joined("out") as (forward, receiver),
    ):
        source.publish(ones(library))
        data = taker.receive().data
        data[100:] = 5
        forward.publish({"all": data, "part": data[50:150]})
        data[:] = 6
        got = receiver.receive().data
    assert all_are(got["all"][:100], 1)
    assert all_are(got["all"][100:], 5)
    assert got["part"].tolist() == [1] * 50 + [5] * 50


@pytest.mark.parametrize("access", WRITABLE)
def test_a_forked_child_writes_a_private_tensor_for_itself_and_a_shared_one_for_all(
    access: str,
) -> None:
    def write() -> None:
        assert all_are(data, 2)
        data[:] = 3
        assert all_are(data, 3)

    with joined(publisher={"shared": True}, subscriber={"access": access}) as (
        publisher,
        subscriber,
    ):
        publisher.publish(ones("numpy"))
        data = subscriber.receive().data
        data[:] = 2
        in_a_fork(write)
        assert all_are(data, 3 if access == "shared" else 2)


@pytest.mark.parametrize("access", WRITABLE)
def test_tensors_of_no_elements_and_of_no_dimension_can_be_written(
    torch: ModuleType, access: str
) -> None:
    message = [np.full((), 3.0), np.zeros((0, 3)), torch.tensor(5), torch.zeros(4, 0)]
    with joined(publisher={"shared": True}, subscriber={"access": access}) as (
        publisher,
        subscriber,
    ):
        publisher.publish(message)
        scalar, empty, torch_scalar, torch_empty = subscriber.receive().data
    scalar[...] = 4
    empty[:] = 1
    torch_scalar.add_(1)
    torch_empty.fill_(1)
    assert (scalar.item(), torch_scalar.item()) == (4, 6)
    assert (empty.shape, tuple(torch_empty.shape)) == ((0, 3), (4, 0))


def test_who_reads_or_writes_for_itself_is_not_refused() -> None:
    for access in ("read", "private"):
        with joined(subscriber={"access": access}) as (publisher, subscriber):
            publisher.publish(np.arange(3))
            assert subscriber.receive().data.tolist() == [0, 1, 2]
            assert (subscriber.stats["refused"], subscriber.stats["last_refusal"]) == (0, "")


@pytest.mark.parametrize("access", ["read", *WRITABLE])
def test_an_async_subscriber_has_the_same_three_ways(access: Any) -> None:
    async def receive_and_write() -> None:
        async with tb.AsyncSubscriber("topic", access=access, timeout=PATIENCE) as subscriber:
            assert await subscriber.wait_for_publishers(timeout=PATIENCE)
            loan = loan_with(publisher, "numpy", 1)
            publisher.publish(loan)
            data = (await subscriber.receive()).data
            assert data.flags.writeable == (access != "read")
            if access != "read":
                data[:] = 5
                assert all_are(data, 5)
            assert all_are(loan, 5 if access == "shared" else 1)

    with tb.Publisher("topic", shared=True) as publisher:
        asyncio.run(receive_and_write())
