"""What is received to write for oneself is written for nobody else."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.access import ITEMS, LIBRARIES, all_are, ask, loan_with, ones, start_holder
from support.harness import PATIENCE, Elsewhere, eventually, hear, joined


def address_of(tensor: Any) -> int:
    return int(np.asarray(tensor).__array_interface__["data"][0])


def publish_and_wait(topic: str, library: str) -> None:
    with tb.Publisher(topic) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(loan_with(publisher, library, 1))
        hear()


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
