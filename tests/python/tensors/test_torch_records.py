"""What a peer may say of torch tensors that PyTorch would not: it is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, joined
from support.torch_kinds import NESTED, Pair, torch
from tensorbus._codec.torch_records import lower
from tensorbus._core import Outgoing
from tensorbus._tensors.torch_tensors import learn

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # "prototype"


def said(*record: Any, tensors: Any = (), library: Any = None) -> Any:
    """What becomes of a record that a hand-made publisher sends, with tensors beside it."""
    with joined(subscriber={"library": library}) as (publisher, subscriber):
        learn()
        outgoing = Outgoing()
        references = [longs_in(added(outgoing, tensor)) for tensor in tensors]
        # Does it say itself where they are?
        named = any(isinstance(field, (msgspec.msgpack.Ext, dict)) for field in record)
        fields = msgspec.msgpack.encode([*record, *([] if named else references)])
        publisher._core.publish(
            outgoing, msgspec.msgpack.encode(msgspec.msgpack.Ext(3, fields)), None
        )
        return subscriber.receive().data


def added(outgoing: Outgoing, tensor: Any) -> int:
    index = outgoing.add(tensor)
    if index < 0:  # PyTorch before 2.10
        lowered = lower(outgoing, tensor)
        assert isinstance(lowered, int)
        return lowered
    return index


def longs(*values: Any) -> Any:
    return torch.tensor(values, dtype=torch.int64)


def longs_in(index: int) -> Any:
    """The tensor of this index, in a record that does not end with its tensors."""
    return msgspec.msgpack.Ext(1, index.to_bytes(4, "little"))


HOSTILE: dict[str, tuple[tuple[Any, ...], list[Any]]] = {
    "a COO index beyond": (("torch.sparse", "sparse_coo", [3], False, 4), [longs([5]), longs(1)]),
    "a negative COO index": (
        ("torch.sparse", "sparse_coo", [3], False, 4),
        [longs([-1]), longs(1)],
    ),
    "not coalesced": (
        ("torch.sparse", "sparse_coo", [3], True, 4),
        [longs([1, 0]), longs(1, 2)],
    ),
    "negative sizes": (("torch.sparse", "sparse_coo", [-3], False, 4), [longs([0]), longs(1)]),
    "a CSR column beyond": (
        ("torch.sparse", "sparse_csr", [1, 3], False, 4),
        [longs(0, 1), longs(7), longs(1)],
    ),
    "CSR rows beyond": (
        ("torch.sparse", "sparse_csr", [1, 3], False, 4),
        [longs(0, 9), longs(0), longs(1)],
    ),
    "an unknown layout": (("torch.sparse", "strided", [3], False, 4), [longs([0]), longs(1)]),
    "sparse parts that are numbers": (("torch.sparse", "sparse_coo", [3], False, 4, 1, 2), []),
    "sparse without parts": (("torch.sparse", "sparse_coo", [3], False, 4), []),
    "an int that requires gradients": (
        ("torch.sparse", "sparse_coo", [3], False, 6),
        [longs([0]), longs(1)],
    ),
    "nested beyond its buffer": (
        ("torch.nested", 4),
        [longs(1, 2), longs([100]), longs([1]), longs(0)],
    ),
    "nested before its buffer": (
        ("torch.nested", 4),
        [longs(1, 2), longs([1]), longs([1]), longs(-5)],
    ),
    "nested sizes of another shape": (
        ("torch.nested", 4),
        [longs(1, 2), longs(1, 1, 1), longs([1]), longs(0)],
    ),
    "jagged beyond its values": (
        ("torch.jagged", 4),
        [longs([1], [2]), longs(0, 100), longs(100), longs(1)],
    ),
    "any number of indices in a few bytes": (
        ("torch.sparse", "sparse_coo", [3], False, 4),
        [longs(0).expand(1, 1 << 40), longs(0).expand(1 << 40)],
    ),
    "CSR rows that begin later": (
        ("torch.sparse", "sparse_csr", [1, 3], False, 4),
        [longs(1, 1), longs(0), longs(1)],
    ),
    "CSR rows that end before they begin": (
        ("torch.sparse", "sparse_csr", [2, 3], False, 4),
        [longs(0, 2, 1), longs(0), longs(1)],
    ),
    "a CSC row beyond": (
        ("torch.sparse", "sparse_csc", [3, 1], False, 4),
        [longs(0, 1), longs(3), longs(1)],
    ),
    "a BSR column beyond": (
        ("torch.sparse", "sparse_bsr", [2, 4], False, 4),
        [longs(0, 1), longs(2), longs([[1, 2], [3, 4]])],
    ),
    "a BSR of half a block": (
        ("torch.sparse", "sparse_bsr", [2, 3], False, 4),
        [longs(0, 1), longs(0), longs([[1, 2], [3, 4]])],
    ),
    "CSR of too few rows": (
        ("torch.sparse", "sparse_csr", [2, 3], False, 4),
        [longs(0, 1), longs(0), longs(1)],
    ),
    "CSR without rows": (
        ("torch.sparse", "sparse_csr", [2, 3], False, 4),
        [longs(), longs(0), longs(1)],
    ),
    "CSR of other batches": (
        ("torch.sparse", "sparse_csr", [2, 1, 3], False, 4),
        [longs([0, 1]), longs([0]), longs([1])],
    ),
    "CSR of fewer values": (
        ("torch.sparse", "sparse_csr", [1, 3], False, 4),
        [longs(0, 2), longs(0, 1), longs(1)],
    ),
    "COO of fewer values": (
        ("torch.sparse", "sparse_coo", [3], False, 4),
        [longs([0, 1]), longs(1)],
    ),
    "COO indices of floats": (
        ("torch.sparse", "sparse_coo", [3], False, 4),
        [torch.zeros(1, 1), longs(1)],
    ),
    "COO of more dimensions than sizes": (
        ("torch.sparse", "sparse_coo", [3], False, 4),
        [longs([0], [0]), longs(1)],
    ),
    "nested of fewer offsets": (
        ("torch.nested", 4),
        [longs(1, 2, 3, 4), longs([2], [2]), longs([1], [1]), longs(0)],
    ),
    "nested of other strides": (
        ("torch.nested", 4),
        [longs(1, 2, 3, 4), longs([2, 1], [1, 2]), longs([1]), longs(0, 2)],
    ),
    "nested sizes of floats": (
        ("torch.nested", 4),
        [longs(1, 2), torch.ones(1, 1), longs([1]), longs(0)],
    ),
    "nested in a buffer of two dimensions": (
        ("torch.nested", 4),
        [longs([1, 2]), longs([1]), longs([1]), longs(0)],
    ),
    "jagged offsets of floats": (
        ("torch.jagged", 4, longs_in(0), longs_in(1), None, 1),
        [longs([1], [2]), torch.tensor([0.0, 2.0])],
    ),
    "jagged beyond, without lengths": (
        ("torch.jagged", 4, longs_in(0), longs_in(1), None, 1),
        [longs([1], [2]), longs(0, 1 << 40)],
    ),
    "jagged in no dimension": (
        ("torch.jagged", 4, longs_in(0), longs_in(1), None, 3),
        [longs([1], [2]), longs(0, 1)],
    ),
    "jagged, by the record of subclasses": (
        (
            *("torch.subclass", "torch.nested._internal.nested_tensor", "NestedTensor", 4),
            *([1, 3, 1], [2, 1, 1], {"_values": longs_in(0), "_offsets": longs_in(1)}),
            {"requires_grad": False, "ragged_idx": 1},
        ),
        [longs([1], [2]), longs(0, 1 << 40)],
    ),
    "meta of negative size": (("torch.meta", "float32", [-1], [1], 4), []),
    "meta of words": (("torch.meta", "float32", ["a"], [1], 4), []),
    "meta of too few strides": (("torch.meta", "float32", [1, 2], [1], 4), []),
    "a size that is none": (("torch.Size", "a"), []),
    "a device that is none": (("torch.device", "no such device"), []),
    "a subclass that refuses": (
        ("torch.subclass", Pair.__module__, "Pair", 4, [1], [1], {"a": 1}, {"name": None}),
        [],
    ),
    "a subclass without a context": (
        ("torch.subclass", Pair.__module__, "Pair", 4, [1], [1], {}),
        [],
    ),
    "a module that is a list": (("torch.subclass", [], "Pair", 4, [1], [1], {}, {}), []),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_record_that_makes_no_sense_is_a_protocol_error(name: str) -> None:
    record, tensors = HOSTILE[name]
    with pytest.raises(tb.ProtocolError, match="sample"):
        said(*record, tensors=tensors)


def test_jagged_offsets_that_reach_beyond_are_refused() -> None:
    record = ("torch.jagged", 4, longs_in(0), longs_in(1), None, 1)
    for offsets in ([0, 3], [-1, 2], [2, 1]):
        with pytest.raises(tb.ProtocolError, match="reaches beyond its values"):
            said(*record, tensors=[torch.ones(2, 3), longs(*offsets)])


@pytest.mark.parametrize("name", ["no_such_dtype", "Tensor", 7])
def test_a_dtype_that_this_torch_lacks_is_unsupported(name: object) -> None:
    with pytest.raises(tb.Unsupported, match=f"no dtype {name}"):
        said("torch.dtype", name)


@pytest.mark.parametrize("kind", [("os", "system"), ("torch", "nn"), (__name__, "HOSTILE")])
def test_what_is_no_subclass_is_not_called(kind: tuple[str, str]) -> None:
    with pytest.raises(tb.Unsupported, match="not imported in this process"):
        said("torch.subclass", *kind, 4, [1], [1], {}, {})


FLAGS = {
    "an int that requires gradients": ("int64", 4 | 2),
    "an int parameter that does": ("int64", 4 | 2 | 16),
    "a negative bool": ("bool", 4 | 64),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_that_make_no_sense_are_a_protocol_error(name: str) -> None:
    dtype, flags = FLAGS[name]
    memory = np.zeros(64, np.uint8)
    with joined() as (publisher, subscriber):
        learn()
        outgoing = Outgoing()
        outgoing.add_memory(memory.ctypes.data, dtype, [2], [1], flags, memory)
        publisher._core.publish(outgoing, b"", None)
        with pytest.raises(tb.ProtocolError, match="sample"):
            _ = subscriber.receive().data


class Mine(torch.Tensor):
    """A subclass that only its pickle knows how to carry."""


class SaysSparse:
    """What pickles as a sparse tensor of any indices."""

    def __init__(self, *indices: int) -> None:
        self.indices = torch.tensor([indices])

    def __reduce__(self) -> Any:
        parts = self.indices, torch.ones(self.indices.shape[1]), torch.Size([3]), False
        return torch._utils._rebuild_sparse_tensor, (torch.sparse_coo, parts)


def test_what_a_pickle_says_is_followed_is_checked_too() -> None:
    nested = NESTED["strided"]().as_subclass(Mine)
    with tb.Queue() as items:
        for item in ([nested], [SaysSparse(2, 0)], [SaysSparse(5)]):
            items.put(item)
        (back,) = items.get(timeout=PATIENCE)
        assert type(back) is Mine
        assert [part.shape for part in back.unbind()] == [(2, 3), (4, 3)]
        (back,) = items.get(timeout=PATIENCE)
        assert back.to_dense().tolist() == [1, 0, 1]
        with pytest.raises(tb.ProtocolError, match="a sparse tensor with index 5"):
            items.get(timeout=PATIENCE)
