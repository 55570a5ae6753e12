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


ROW = torch.ones(100_000)
ROWS = torch.stack([ROW, ROW])


def in_fake_tensors() -> Any:
    with torch._subclasses.fake_tensor.FakeTensorMode():
        return torch.zeros(100_000).shape


def in_forward_mode() -> Any:
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(ROW, ROW * 2)
        return torch.autograd.forward_ad.unpack_dual(torch.stack([dual, dual])).tangent


TRANSFORMED: dict[str, Any] = {
    "vmap, zeros": lambda: torch.vmap(lambda a: torch.zeros(100_000) + a)(torch.arange(3.0)),
    "vmap, zeros_like": lambda: torch.vmap(torch.zeros_like)(ROWS),
    "vmap, rand": lambda: torch.vmap(lambda a: torch.rand(100_000) * 0 + a, randomness="different")(
        torch.arange(3.0)
    ),
    "vmap, stack": lambda: torch.vmap(lambda a: torch.stack([a, a]))(ROWS),
    "vmap, cat": lambda: torch.vmap(lambda a: torch.cat([a, a]))(ROWS),
    "grad": lambda: torch.func.grad(lambda a: (torch.ones(100_000) * a).sum())(torch.tensor(2.0)),
    "jvp": lambda: torch.func.jvp(lambda a: torch.stack([a, a]).sum(), (ROW,), (ROW,))[1],
    "forward mode": in_forward_mode,
    "fake tensors": in_fake_tensors,
    "a trace": lambda: [
        node.kind()
        for node in torch.jit.trace(lambda a: torch.zeros(100_000) + a, ROW).graph.nodes()
    ],
    "a traced graph": lambda: (
        torch.fx.experimental.proxy_tensor.make_fx(lambda a: torch.cat([a, torch.zeros(100_000)]))(
            ROW
        ).code
    ),
    "a compiled function": lambda: torch.compile(
        lambda a: torch.zeros(100_000) + torch.cat([a[:50_000], a[50_000:]]), backend="eager"
    )(ROW),
}


@pytest.mark.parametrize("way", TRANSFORMED)
def test_pytorch_transforms_its_own_functions(way: str) -> None:
    """What transforms a function, or records it, sees it as the program calls it."""
    expected = TRANSFORMED[way]()
    with tb.allocate():
        made = TRANSFORMED[way]()
    assert torch.equal(made, expected) if isinstance(made, torch.Tensor) else made == expected


def test_another_mode_sees_the_function_that_the_program_calls() -> None:
    class Names(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    with Names(), tb.allocate():
        torch.zeros(100_000)
    assert seen == ["zeros"]


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
