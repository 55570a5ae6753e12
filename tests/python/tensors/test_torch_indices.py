"""Indices and offsets, which PyTorch follows without a look, are the receiver's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, joined
from support.torch_kinds import SPARSE, torch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # "beta", "prototype"


def on_the_bus(*values: Any) -> Any:
    """Numbers in memory that this process publishes without a copy, and can go on writing to."""
    numbers = torch.tensor(values)
    memory = tb.empty(numbers.shape, numbers.dtype)
    return memory.copy_(numbers)


# Tensors whose indices can still be written by their publisher, and these.
FOLLOWED: dict[str, Callable[[], tuple[Any, list[Any]]]] = {
    "COO": lambda: (
        torch.sparse_coo_tensor(i := on_the_bus([0, 1]), torch.ones(2), (4,), is_coalesced=True),
        [i],
    ),
    **{
        layout: lambda layout=layout, values=values: (
            torch.sparse_compressed_tensor(
                *(parts := [on_the_bus(0, 1, 2), on_the_bus(0, 1)]),
                values,
                (4, 4) if values.dim() > 1 else (2, 2),
                layout=getattr(torch, layout),
            ),
            parts,
        )
        for layout, values in {
            "sparse_csr": torch.ones(2),
            "sparse_csc": torch.ones(2),
            "sparse_bsr": torch.ones(2, 2, 2),
            "sparse_bsc": torch.ones(2, 2, 2),
        }.items()
    },
    "jagged": lambda: (
        torch.nested.nested_tensor_from_jagged(torch.ones(8, 2), i := on_the_bus(0, 4, 8)),
        [i],
    ),
    "jagged, with gaps": lambda: (
        torch.nested.nested_tensor_from_jagged(
            torch.ones(8, 2), i := on_the_bus(0, 4, 8), n := on_the_bus(2, 3)
        ),
        [i, n],
    ),
}


def numbers_in(tensor: Any) -> list[Any]:
    """What says where its values are read."""
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices()]
    if tensor.is_nested:
        lengths = tensor.lengths()
        return [tensor.offsets(), *([] if lengths is None else [lengths])]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices()]
    return [tensor.ccol_indices(), tensor.row_indices()]


@pytest.mark.parametrize("how", ["publish", "pickle"])
@pytest.mark.parametrize("name", FOLLOWED)
def test_what_is_followed_is_the_receivers_own(name: str, how: str) -> None:
    sent, written = FOLLOWED[name]()
    with joined() as (publisher, subscriber), tb.Queue() as items:
        if how == "publish":
            publisher.publish(sent)
            back = subscriber.receive().data
        else:
            items.put({"a set of types": {int}, "tensor": sent})
            back = items.get(timeout=PATIENCE)["tensor"]
        before = [numbers.tolist() for numbers in numbers_in(back)]
        for numbers in written:
            numbers.fill_(1 << 40)
        assert [numbers.tolist() for numbers in numbers_in(back)] == before
        for numbers in numbers_in(back):
            numbers.mul_(2)  # it is memory like any other: this writes to nobody's


def test_what_another_may_write_to_is_not_followed() -> None:
    with (
        tb.Publisher("topic", shared=True) as publisher,
        tb.Subscriber("topic", timeout=PATIENCE) as reader,
        tb.Subscriber("topic", timeout=PATIENCE, access="shared") as writer,
    ):
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        publisher.publish(SPARSE["COO, coalesced"]())
        read, written = reader.receive().data, writer.receive().data
        written._indices().fill_(1 << 40)
        written._values().fill_(7)
        assert read._indices().tolist() == [[0, 1]]
        assert read._values().tolist() == [7, 7]
