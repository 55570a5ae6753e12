"""`sample.copy()`: the same in memory of this process alone, without a lease."""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED, Elsewhere, eventually, in_a_fork, joined, tell

# PyTorch says so of its CSR tensors.
pytestmark = pytest.mark.filterwarnings("ignore:.*is in beta state")


def everything() -> dict[str, Any]:
    """A message of every kind."""
    import torch

    base = torch.arange(60.0).reshape(6, 10)
    numbers = np.arange(24).reshape(4, 6)
    structured = np.zeros(3, np.dtype([("id", "u1"), ("at", "<f4", 2)]))
    structured["at"] = 0.5
    return {
        "torch": {
            "plain": base.clone(),
            "transposed": base.t(),
            "with holes": base[:, ::2],
            "broadcast": torch.ones(1).expand(4, 3),
            "no dimension": torch.tensor(5),
            "empty": torch.zeros(0, 3),
            "bfloat16": base.to(torch.bfloat16),
            "bool": base > 30,
            "conjugate": torch.tensor([1 + 2j, 3 - 1j]).conj(),
            "requires_grad": torch.ones(3, requires_grad=True),
            "parameter": torch.nn.Parameter(torch.ones(2, 2)),
            "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
            "sparse": torch.eye(3).to_sparse(),
            "csr": torch.eye(3).to_sparse_csr(),
            "meta": torch.empty(2, 3, device="meta"),
        },
        "numpy": [
            numbers,
            numbers.T,
            numbers[::-1, ::-2],
            np.array(7.5),
            np.zeros((0, 2)),
            structured,
            np.array(["2026-01-01", "NaT"], "M8[D]"),
            np.array(["a", "bcd"]),
            np.arange(3, dtype=">i4"),
        ],
        "small": (None, True, 1, 2.5, "text", b"bytes", 1 << 100, 1 + 2j, np.float32(2)),
        "sets": [{1, "a"}, frozenset({2, (3, 4)})],
        "ordered": OrderedDict(b=1, a=[torch.zeros(2)]),
        "keys": {1: "one", (2, 3): np.ones(2)},
        "buffer": bytearray(b"12345"),
    }


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for mine, yours in zip(one, other, strict=True):
            assert_same(mine, yours)
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    elif hasattr(one, "requires_grad"):
        assert_same_tensors(one, other)
    else:
        assert one == other


def assert_same_tensors(one: Any, other: Any) -> None:
    import torch

    for name in ("dtype", "shape", "layout", "device", "requires_grad", "is_leaf"):
        assert getattr(one, name) == getattr(other, name)
    assert one.is_conj() == other.is_conj()
    if one.layout == torch.strided and not one.is_meta:
        assert torch.equal(one, other)
    elif not one.is_meta:
        assert torch.equal(one.to_dense(), other.to_dense())


@pytest.mark.parametrize("access", ["read", "private", "shared"])
def test_a_copy_has_all_that_its_original_has(torch: ModuleType, access: str) -> None:
    with joined(publisher={"shared": True}, subscriber={"access": access}) as (
        publisher,
        subscriber,
    ):
        publisher.publish(everything())
        sample = subscriber.receive()
        copy = sample.copy()
        assert_same(copy.data, sample.data)
        assert_same(copy.copy().data, sample.data)
        assert sample.copy().header == copy.copy().header == sample.header
        assert repr(copy).split(" age=")[0] == repr(sample).split(" age=")[0]
        original = sample.header
        del sample
        assert subscriber.stats["held"] == 0
        assert publisher.stats["bytes_in_flight"] == 0
    del subscriber, publisher
    assert_same(copy.data["numpy"], everything()["numpy"])
    assert copy.header == original
    assert (copy.header.topic, copy.header.sequence) == ("topic", 0)


def test_all_of_a_copy_can_be_written(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(everything())
        sample = subscriber.receive()
        data = sample.copy().data
        before = sample.copy()
        with torch.no_grad():
            for name, tensor in data["torch"].items():
                if name == "broadcast":
                    tensor = tensor[0]  # PyTorch refuses to write where elements share memory
                if tensor.layout == torch.strided:
                    tensor.zero_()
                elif tensor.layout == torch.sparse_coo:
                    tensor._values().zero_()
                else:
                    tensor.values().zero_()
        for array in data["numpy"]:
            assert array.flags.writeable
            array[...] = np.zeros((), array.dtype)
        data["buffer"][:] = bytes(5)
        data["keys"][2, 3][:] = 0
        assert_same(before.data, sample.data)
        assert not data["torch"]["plain"].any()
        assert not data["torch"]["sparse"].to_dense().any()


def test_a_copied_parameter_is_trained(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(torch.nn.Parameter(torch.ones(1000)))
        sample = subscriber.receive()
        parameter = sample.copy().data
        (parameter**2).sum().backward()
        torch.optim.SGD([parameter], lr=0.25).step()
        assert (parameter == 0.5).all()
        assert (sample.data == 1).all()


def test_any_number_of_copies_is_kept_and_the_memory_is_used_again() -> None:
    copies, places = [], set()
    with joined(subscriber={"max_held": 1}) as (publisher, subscriber):
        for number in range(10):
            loan = publisher.loan((10_000,), np.float64)
            loan[:] = number
            places.add(loan.__array_interface__["data"][0])
            publisher.publish(loan)
            del loan
            copies.append(subscriber.receive().copy())
            assert subscriber.stats["held"] == 0
            assert publisher.stats["bytes_in_flight"] == 0
    assert len(places) == 1
    for number, copy in enumerate(copies):
        assert (copy.data == number).all()
        assert copy.header.sequence == number


def test_a_copy_is_made_from_what_the_original_is_now(torch: ModuleType) -> None:
    with joined(subscriber={"access": "private"}) as (publisher, subscriber):
        publisher.publish({"torch": torch.zeros(1000), "numpy": np.zeros(1000)})
        sample = subscriber.receive()
        for value in (1, 2):
            for tensor in sample.data.values():
                tensor[:] = value
            copy = sample.copy()
            for tensor in copy.data.values():
                assert (tensor == value).all()
                tensor[:] = -1
            assert all((tensor == value).all() for tensor in sample.data.values())


@pytest.mark.parametrize("lent", [True, False], ids=["a loan", "copied"])
def test_views_that_overlap_do_so_in_the_copy(torch: ModuleType, lent: bool) -> None:
    with joined() as (publisher, subscriber):
        base = publisher.loan((100, 100), torch.float32) if lent else torch.empty(100, 100)
        base.fill_(1)
        publisher.publish({"all": base, "rows": base[10:20], "last": base[99], "again": base})
        sample = subscriber.receive()
        copy = sample.copy().data
        second = sample.copy().data
    copy["rows"].fill_(5)
    assert (copy["all"][10:20] == 5).all()
    assert (copy["all"] == 5).sum() == 1000
    copy["again"][99] = 7
    assert (copy["last"] == 7).all()
    for other in (sample.data, second):
        assert all((tensor == 1).all() for tensor in other.values())


@pytest.mark.parametrize("library", ["torch", "numpy", "dlpack"])
def test_a_copy_comes_as_what_its_subscriber_asked_for(torch: ModuleType, library: Any) -> None:
    with joined(subscriber={"library": library}) as (publisher, subscriber):
        publisher.publish([torch.arange(3), np.arange(3)])
        sample = subscriber.receive()
        copies = sample.copy().data
    for original, copy in zip(sample.data, copies, strict=True):
        assert type(copy) is type(original)
        view = torch.from_dlpack(copy) if library == "dlpack" else copy
        view[1] = 9
        assert view.tolist() == [0, 9, 2]
        assert np.from_dlpack(original).tolist() == [0, 1, 2]


def test_a_copy_offers_dlpack_itself(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(np.arange(3))
        copy = subscriber.receive().copy()
    tensor = torch.from_dlpack(copy)
    tensor[0] = 5
    assert copy.data.tolist() == [5, 1, 2]


def test_a_tensor_of_a_copy_keeps_its_memory(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish({"torch": torch.ones(100_000), "numpy": np.ones(100_000)})
        data = subscriber.receive().copy().data
    views = [data["torch"][5:7], data["numpy"][-3:]]
    del data
    others = [np.zeros(250_000) for _ in range(4)]  # would take the memory if it were free
    assert all((view == 1).all() for view in views)
    del others


@pytest.mark.parametrize("end", ["close", "SIGKILL"])
def test_a_copy_outlives_its_publisher_and_its_subscriber(elsewhere: Elsewhere, end: str) -> None:
    def publish_one(topic: str) -> None:
        with tb.Publisher(topic) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish({"image": np.full(100_000, 7), "id": 1})
            input()

    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        other = elsewhere.start(publish_one, "topic")
        copy = subscriber.receive().copy()  # and nobody looked inside
        if end == "SIGKILL":
            other.kill()
        else:
            other.tell("the end")
            other.finish()
        eventually(lambda: subscriber.stats["publishers"] == 0)
    assert copy.data["id"] == 1
    assert (copy.data["image"] == 7).all()
    copy.data["image"][:] = 8
    assert (copy.copy().data["image"] == 8).all()
    assert copy.header.topic == "topic"


def test_a_message_without_tensors_is_copied_too() -> None:
    with joined() as (publisher, subscriber):
        for message in (None, [], {"text": "x" * 1000}, "short"):
            publisher.publish(message)
            copy = subscriber.receive().copy()
            assert copy.data == message
            assert copy.copy().data == message


def test_a_forked_child_copies_what_its_parent_holds() -> None:
    def copy_and_write() -> None:
        copy = sample.copy()
        copy.data[:] = 5
        assert (copy.data == 5).all()
        kept.data[:] = 6
        del copy

    with joined() as (publisher, subscriber):
        publisher.publish(np.ones(10_000))
        sample = subscriber.receive()
        kept = sample.copy()
        in_a_fork(copy_and_write)
        assert (sample.data == 1).all()
        assert (kept.data == 1).all()


@pytest.mark.skipif(SANITIZED, reason="its allocator ends a process that has no memory left")
def test_a_copy_that_there_is_no_memory_for_is_a_memory_error(elsewhere: Elsewhere) -> None:
    def copy_with_little_room(topic: str) -> None:
        import resource
        from pathlib import Path

        with tb.Subscriber(topic, timeout=PATIENCE) as subscriber:
            sample = subscriber.receive()
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limits = resource.getrlimit(resource.RLIMIT_AS)
            room = pages * resource.getpagesize() + (32 << 20)
            resource.setrlimit(resource.RLIMIT_AS, (room, limits[1]))
            try:
                sample.copy()
            except tb.OutOfMemory as error:
                tell(type(error).__name__)
            else:
                tell("there was room")
            resource.setrlimit(resource.RLIMIT_AS, limits)
            tell(bool((sample.copy().data == sample.data).all()))

    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(np.zeros(64 << 20, np.uint8))
        other = elsewhere.start(copy_with_little_room, "topic")
        assert other.hear() == "OutOfMemory"
        assert other.hear() is True


def test_other_threads_run_while_a_large_sample_is_copied() -> None:
    turns = 0
    done = threading.Event()

    def take_turns() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0)  # gives the GIL away; nobody takes it from the copying thread

    def turns_during(sample: tb.Sample) -> int:
        before = turns
        copy = sample.copy()
        during = turns - before
        assert copy.data.nbytes == sample.data.nbytes
        return during

    with joined() as (publisher, subscriber):
        loan = publisher.loan((64 << 20,), np.uint8)
        publisher.publish(loan)
        sample = subscriber.receive()
        assert sample.data.nbytes == 64 << 20
        thread = threading.Thread(target=take_turns)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        thread.start()
        try:
            eventually(lambda: turns_during(sample))  # once is enough: holding it, it never would
        finally:
            done.set()
            sys.setswitchinterval(interval)
            thread.join()
