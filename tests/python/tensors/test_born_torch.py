"""PyTorch's tensors that are born on the bus: `tensorbus.allocate`."""

from __future__ import annotations

from typing import Any

import pytest

import tensorbus as tb
from support.harness import Elsewhere, in_a_fork, joined

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

SHAPE = (100, 200)
SMALL = {"TENSORBUS_BUDGET": str(8 << 20)}


def is_born(tensor: Any) -> bool:
    """Publishing it copies nothing."""
    with joined("is-born") as (publisher, subscriber):
        publisher.publish(tensor)
        received = subscriber.receive().data
        assert received.dtype == tensor.dtype
        assert torch.equal(received, tensor.detach())
        copied: int = publisher.stats.bytes_copied
        return copied == 0


LIKE = torch.zeros(SHAPE)
WAYS: dict[str, Any] = {
    "empty": lambda: torch.empty(*SHAPE).fill_(3),
    "zeros": lambda: torch.zeros(SHAPE),
    "zeros of sizes": lambda: torch.zeros(*SHAPE, dtype=torch.float64),
    "ones": lambda: torch.ones(SHAPE, dtype=torch.int64),
    "full": lambda: torch.full(SHAPE, 7.0),
    "full, named": lambda: torch.full(size=SHAPE, fill_value=7, dtype=torch.int32),
    "rand": lambda: torch.rand(SHAPE),
    "randn": lambda: torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)),
    "bfloat16": lambda: torch.ones((400, 200), dtype=torch.bfloat16, device="cpu"),
    "zeros_like": lambda: torch.zeros_like(LIKE),
    "full_like": lambda: torch.full_like(LIKE, 2),
    "stack": lambda: torch.stack([LIKE, LIKE + 1]),
    "cat": lambda: torch.cat((LIKE, LIKE + 1), dim=1),
    "a batch": lambda: torch.utils.data.default_collate([LIKE, LIKE + 1]),
}


@pytest.mark.parametrize("way", WAYS)
def test_new_tensors_are_published_without_a_copy(way: str) -> None:
    with tb.allocate():
        tensor = WAYS[way]()
    expected = WAYS[way]()
    assert (tensor.shape, tensor.dtype, tensor.stride()) == (
        expected.shape,
        expected.dtype,
        expected.stride(),
    )
    if way != "rand":
        assert torch.equal(tensor, expected)
    assert is_born(tensor)


OTHERS: dict[str, Any] = {
    "small": lambda: torch.zeros(10),
    "an operator": lambda: LIKE + 1,
    "gradients": lambda: torch.stack([LIKE.clone().requires_grad_()] * 2).detach(),
    "channels last": lambda: torch.empty((2, 3, 64, 64), memory_format=torch.channels_last).zero_(),
    "promoted": lambda: torch.cat([LIKE.to_sparse(), LIKE.to_sparse()]).to_dense(),
}


@pytest.mark.parametrize("way", OTHERS)
def test_others_are_as_ever(way: str) -> None:
    with tb.allocate():
        tensor = OTHERS[way]()
    expected = OTHERS[way]()
    assert torch.equal(tensor, expected)
    assert tensor.stride() == expected.stride()
    assert not is_born(tensor)


def test_a_tensor_that_requires_gradients_is_a_leaf() -> None:
    with tb.allocate():
        weight = torch.zeros(SHAPE, requires_grad=True)
        (weight * 2).sum().backward()
    assert weight.is_leaf
    assert torch.equal(weight.grad, torch.full(SHAPE, 2.0))
    assert is_born(weight)


def test_errors_are_those_of_pytorch() -> None:
    with tb.allocate():
        for call in (
            lambda: torch.stack([LIKE, LIKE[1:]]),
            lambda: torch.cat([]),
            lambda: torch.zeros(-5, 100_000),
            lambda: torch.stack([LIKE], dim=9),
        ):
            with pytest.raises((RuntimeError, IndexError, ValueError)):
                call()


def test_out_is_where_it_was_asked_for() -> None:
    out = torch.empty((2, *SHAPE))
    with tb.allocate():
        assert torch.stack([LIKE, LIKE], out=out) is out
        assert torch.zeros(SHAPE, out=torch.empty(SHAPE)).sum() == 0
        assert torch.zeros(SHAPE, device="meta").is_meta


def test_it_is_published_once_and_its_memory_comes_back() -> None:
    before = tb.participant().arena["used_bytes"]
    with tb.allocate():
        tensor = torch.zeros(SHAPE)
    with joined() as (publisher, subscriber):
        publisher.publish(tensor)
        with pytest.raises(tb.InvalidArgument, match="published before"):
            publisher.publish(tensor[1:])
        received = subscriber.receive()
        del tensor
        assert not received.data.any()
        del received
        publisher.publish(0)
    assert tb.participant().arena["used_bytes"] == before


def use_more_than_the_budget() -> None:
    import torch

    import tensorbus as tb

    with tb.allocate():
        tensors = [torch.full((1 << 20,), float(number)) for number in range(10)]
    stats = tb.allocate.stats()
    assert 0 < stats.born < 10
    assert stats.born + stats.elsewhere == 10
    assert [float(each.max()) for each in tensors] == [*range(10)]


def test_beyond_the_budget_tensors_are_ordinary_ones(elsewhere: Elsewhere) -> None:
    elsewhere.run(use_more_than_the_budget, env=SMALL)


def test_a_forked_child_makes_ordinary_tensors() -> None:
    with tb.allocate():
        tensor = torch.full(SHAPE, 5.0)

        def child() -> None:
            born = tb.allocate.stats().born
            assert float(tensor[0, 0]) == 5
            assert float(torch.zeros(SHAPE)[0, 0]) == 0
            assert tb.allocate.stats().born == born

        in_a_fork(child)
    assert is_born(tensor)
