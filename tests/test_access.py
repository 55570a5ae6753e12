"""The three ways to receive: to read, to write for oneself, to write for all."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from harness import PATIENCE, Elsewhere, Process, eventually, hear, in_a_fork, joined, tell

ITEMS = 20_000  # float32: twenty pages

LIBRARIES = ["numpy", "torch"]
WRITABLE = ["private", "shared"]


def ones(library: str) -> Any:
    if library == "numpy":
        return np.ones(ITEMS, np.float32)
    import torch

    return torch.ones(ITEMS)


def loan_with(publisher: tb.Publisher, library: str, value: float) -> Any:
    loan = publisher.loan(like=ones(library))
    loan[:] = value
    return loan


def address_of(tensor: Any) -> int:
    return int(np.asarray(tensor).__array_interface__["data"][0])


def all_are(tensor: Any, value: float) -> bool:
    return bool((tensor == value).all())


def hold(topic: str, access: str) -> None:
    """Receives a sample when it is told to, or writes a number to the one it has; tells its
    smallest and its largest number each time."""
    with tb.Subscriber(topic, access=access, timeout=PATIENCE) as subscriber:
        tell("ready")
        data = None
        while True:
            command = hear()
            if command == "let go":
                data = None
                tell(None)
                continue
            if command == "receive":
                data = subscriber.receive().data
            elif command != "look":
                data[:] = command
            tell((float(data.min()), float(data.max())))


def ask(other: Process, command: object) -> Any:
    other.tell(command)
    return other.hear()


def start_holder(elsewhere: Elsewhere, access: str) -> Process:
    other = elsewhere.start(hold, "topic", access)
    assert other.hear() == "ready"
    return other


def publish_and_wait(topic: str, library: str) -> None:
    with tb.Publisher(topic) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(loan_with(publisher, library, 1))
        hear()


# Reading.


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
    with joined(publisher={"shared": True}, subscriber={"access": access, "as_": "dlpack"}) as (
        publisher,
        subscriber,
    ):
        publisher.publish(np.arange(4, dtype=np.int32))
        sample = subscriber.receive()
    writable = access != "read"
    view = memoryview(sample.data)
    arrays = [np.asarray(sample.data), np.from_dlpack(sample.data), np.from_dlpack(sample)]
    assert view.readonly != writable
    assert [array.flags.writeable for array in arrays] == [writable] * 3
    if writable:
        view[2] = 50
        assert all(array.tolist() == [0, 1, 50, 3] for array in arrays)


@pytest.mark.parametrize("access", ["write", "", "READ", "readwrite", None, 1])
def test_an_access_that_there_is_not_is_refused_with_those_that_there_are(access: Any) -> None:
    for kind in (tb.Subscriber, tb.AsyncSubscriber):
        with pytest.raises(tb.InvalidArgument, match=r"'read', 'private', 'shared'") as refusal:
            kind("topic", access=access)
        assert f"access={access!r}" in str(refusal.value)


# Private.


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_private_write_is_seen_by_nobody_else(
    elsewhere: Elsewhere, torch: ModuleType, library: str
) -> None:
    with tb.Publisher("topic") as publisher:
        writing, also_private, reading = (
            start_holder(elsewhere, access) for access in ("private", "private", "read")
        )
        assert publisher.wait_for_subscribers(3, timeout=PATIENCE)
        loan = loan_with(publisher, library, 1)
        publisher.publish(loan)
        for other in (writing, also_private, reading):
            assert ask(other, "receive") == (1, 1)
        assert ask(writing, 50) == (50, 50)
        assert ask(also_private, 60) == (60, 60)
        assert ask(writing, "look") == (50, 50)
        assert ask(reading, "look") == (1, 1)
        assert all_are(loan, 1)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_private_write_is_not_seen_in_the_next_sample_in_the_same_memory(
    elsewhere: Elsewhere, torch: ModuleType, library: str
) -> None:
    with tb.Publisher("topic") as publisher:
        writing = start_holder(elsewhere, "private")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        places = set()
        for number in range(1, 6):
            loan = loan_with(publisher, library, number)
            places.add(address_of(loan))
            publisher.publish(loan)
            del loan
            assert ask(writing, "receive") == (number, number)
            assert ask(writing, 100 + number) == (100 + number, 100 + number)
            assert ask(writing, "let go") is None
            assert publisher.stats["bytes_in_flight"] == 0
        assert len(places) == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_private_write_stays_for_as_long_as_any_view_of_it(
    torch: ModuleType, library: str
) -> None:
    with joined(publisher={"depth": 2}, subscriber={"access": "private"}) as (
        publisher,
        subscriber,
    ):
        publisher.publish(ones(library))
        view = subscriber.receive().data[10:5000]  # the sample and the whole tensor are gone
        view[:] = 50
        for number in range(100):
            publisher.publish(ones(library) * number)
            neighbour = subscriber.receive().data
            neighbour[:] = -1
            assert all_are(view, 50)
        del neighbour
        assert subscriber.stats["held"] == 1
        del view
        assert subscriber.stats["held"] == 0
        assert publisher.stats["bytes_in_flight"] == 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_private_samples_stay_valid_when_their_publisher_is_killed(
    elsewhere: Elsewhere, torch: ModuleType, library: str
) -> None:
    with tb.Subscriber("topic", access="private", timeout=PATIENCE) as subscriber:
        other = elsewhere.start(publish_and_wait, "topic", library)
        data = subscriber.receive().data
        data[: ITEMS // 2] = 2
        other.kill()
        eventually(lambda: subscriber.stats["publishers"] == 0)
    assert all_are(data[: ITEMS // 2], 2)
    assert all_are(data[ITEMS // 2 :], 1)  # pages that were never written
    data[ITEMS // 2 :] = 3
    assert all_are(data[: ITEMS // 2], 2)
    assert all_are(data[ITEMS // 2 :], 3)


@pytest.mark.parametrize("lent", [True, False], ids=["a loan", "copied"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_overlapping_views_of_a_private_message_share_a_write(
    torch: ModuleType, library: str, lent: bool
) -> None:
    with joined(subscriber={"access": "private"}) as (publisher, subscriber):
        sent = loan_with(publisher, library, 1) if lent else ones(library)
        publisher.publish({"all": sent, "part": sent[5000:6000], "apart": ones(library)})
        data = subscriber.receive().data
        data["part"][10] = 50
        assert data["all"][5010] == 50
        data["all"][:] = 60
        assert all_are(data["part"], 60)
        assert all_are(data["apart"], 1)
        assert all_are(sent, 1)


def test_torch_writes_in_place_to_a_private_tensor(torch: ModuleType) -> None:
    sent = torch.linspace(-1, 1, 60).reshape(6, 10)
    expected = sent.clone()
    with joined(subscriber={"access": "private"}) as (publisher, subscriber):
        publisher.publish(sent)
        received = subscriber.receive().data
    for tensor in (received, expected):
        tensor.add_(0.25).mul_(3).clamp_(-2, 2)
        tensor[1:3, ::2] = 7
        tensor[tensor > 6] -= 1
        tensor.t()[4].zero_()
        torch.nn.functional.relu(tensor[5], inplace=True)
        torch.cumsum(tensor[0].clone(), 0, out=tensor[0])
        tensor.index_fill_(0, torch.tensor([3]), -4)
        tensor.numpy()[2, 2] = 11
    assert torch.equal(received, expected)
    assert torch.equal(sent, torch.linspace(-1, 1, 60).reshape(6, 10))


def test_a_private_tensor_cannot_grow_beyond_its_memory(torch: ModuleType) -> None:
    with joined(subscriber={"access": "private"}) as (publisher, subscriber):
        publisher.publish(torch.arange(4.0))
        received = subscriber.receive().data
    alias = received.detach()  # PyTorch leaves the refused sizes behind
    for grow in (alias.resize_, received.untyped_storage().resize_):
        with pytest.raises(RuntimeError, match="not resizable"):
            grow(1 << 20)
    assert received.tolist() == [0, 1, 2, 3]
    received.set_(torch.zeros(2))  # another storage is another matter
    received.data = torch.ones(3)
    assert received.tolist() == [1, 1, 1]


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


def test_a_private_leaf_gets_its_gradient(torch: ModuleType) -> None:
    with joined(subscriber={"access": "private"}) as (publisher, subscriber):
        publisher.publish(torch.arange(4.0, requires_grad=True))
        received = subscriber.receive().data
    assert received.is_leaf
    (received**2).sum().backward()
    assert received.grad.tolist() == [0, 2, 4, 6]
    with pytest.raises(RuntimeError, match="leaf Variable"):  # PyTorch's own rule
        received.add_(1)
    with torch.no_grad():
        received.sub_(received.grad, alpha=0.5)
    assert received.tolist() == [0, 0, 0, 0]


def test_a_private_tensor_takes_part_in_a_graph(torch: ModuleType) -> None:
    weight = torch.full((4,), 3.0, requires_grad=True)
    with joined(subscriber={"access": "private"}) as (publisher, subscriber):
        publisher.publish(torch.arange(4.0))
        received = subscriber.receive().data
    received.mul_(weight)  # it has a history from here on
    received.sum().backward()
    assert weight.grad.tolist() == [0, 1, 2, 3]
    product = weight * received.detach()
    received.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_an_optimizer_steps_on_a_private_parameter(torch: ModuleType, optimizer: str) -> None:
    sent = torch.nn.Parameter(torch.ones(1000, 10))
    local = torch.nn.Parameter(torch.ones(1000, 10))
    with joined(subscriber={"access": "private"}) as (publisher, subscriber):
        publisher.publish({"weight": sent})
        received = subscriber.receive().data["weight"]
    assert type(received) is torch.nn.Parameter
    assert all_are(received, 1)
    for parameter in (received, local):
        steps = getattr(torch.optim, optimizer)([parameter], lr=0.1)
        for _ in range(3):
            steps.zero_grad()
            (parameter**2).sum().backward()
            steps.step()
    # Not bit by bit, which PyTorch does not promise of two runs.
    differing = (~torch.isclose(received, local)).nonzero().tolist()
    assert not differing, (len(differing), differing[0], differing[-1])
    assert not torch.equal(received, sent)
    assert all_are(sent, 1)


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


# Shared.


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
        elsewhere.start(publish_when_told, "topic", False)
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


def publish_when_told(topic: str, shared: bool) -> None:
    with tb.Publisher(topic, shared=shared) as publisher:
        while True:
            publisher.publish(np.full(1000, hear()))


def test_who_reads_or_writes_for_itself_is_not_refused() -> None:
    for access in ("read", "private"):
        with joined(subscriber={"access": access}) as (publisher, subscriber):
            publisher.publish(np.arange(3))
            assert subscriber.receive().data.tolist() == [0, 1, 2]
            assert (subscriber.stats["refused"], subscriber.stats["last_refusal"]) == (0, "")


@pytest.mark.parametrize("wrap", [lambda loan: loan, lambda loan: {"a": [loan[5:]]}])
def test_a_loan_is_for_its_own_kind_of_publisher(wrap: Any) -> None:
    with (
        joined("ordinary") as (ordinary, hears_ordinary),
        joined("open", publisher={"shared": True}) as (shared, hears_shared),
        tb.Publisher("open too", shared=True) as also_shared,
    ):
        ordinary_loan = loan_with(ordinary, "numpy", 1)
        shared_loan = loan_with(shared, "numpy", 2)
        with pytest.raises(tb.InvalidArgument, match=r"of one that is not.*publish a copy"):
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


def test_an_async_subscriber_is_refused_like_any_other() -> None:
    async def ask_for_too_much() -> None:
        async with tb.AsyncSubscriber("topic", access="shared", timeout=0.05) as subscriber:
            while not subscriber.stats["refused"]:
                await asyncio.sleep(0.002)
            with pytest.raises(tb.Timeout, match=r"a publisher refused: .*shared"):
                await subscriber.receive()

    with tb.Publisher("topic"):
        asyncio.run(ask_for_too_much())
