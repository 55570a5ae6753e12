"""Loans: memory of the bus that the publisher fills, and that is not copied."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pytest

import tensorbus as tb
from support.harness import joined, used_bytes


@pytest.mark.parametrize("dtype", ["uint8", "float32", np.float64, np.dtype("int16"), bool])
def test_a_loan_has_the_shape_and_dtype_that_were_asked_for(dtype: object) -> None:
    with tb.Publisher("topic") as publisher:
        loan = publisher.loan((2, 3, 4), dtype=dtype)
    assert type(loan) is np.ndarray
    assert (loan.shape, loan.dtype) == ((2, 3, 4), np.dtype(dtype))
    assert loan.flags.writeable
    assert loan.flags.c_contiguous


@pytest.mark.parametrize("name", ["uint8", "bfloat16", "complex64", "bool"])
def test_a_torch_dtype_makes_a_torch_loan(torch: ModuleType, name: str) -> None:
    dtype = getattr(torch, name)
    with tb.Publisher("topic") as publisher:
        loan = publisher.loan(torch.Size([2, 3]), dtype=dtype)
    assert type(loan) is torch.Tensor
    assert (loan.shape, loan.dtype) == ((2, 3), dtype)


@pytest.mark.parametrize("shape", [5, (5,), [5], np.int64(5), (np.int64(5),)])
def test_one_size_is_a_shape(torch: ModuleType, shape: object) -> None:
    with tb.Publisher("topic") as publisher:
        assert publisher.loan(shape, dtype="uint8").shape == (5,)
        assert publisher.loan(shape, dtype=torch.uint8).shape == (5,)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), [1] * 64, (2, 3, 4, 5, 6, 7, 8)])
def test_a_torch_loan_has_any_shape(torch: ModuleType, shape: Sequence[int]) -> None:
    with tb.Publisher("topic") as publisher:
        loan = publisher.loan(shape, dtype=torch.int16)
        assert loan.shape == tuple(shape)
        assert loan.is_contiguous()
        assert publisher.publish(loan) == 0


@pytest.mark.parametrize("shape", [-1, (2, -1), (2**63,), (2**62, 4), ("2",), [1] * 65, 2.0])
def test_a_torch_loan_of_no_shape_is_refused(torch: ModuleType, shape: object) -> None:
    with tb.Publisher("topic") as publisher:
        for _ in range(2):  # the first may be the one that finds out what PyTorch is
            with pytest.raises(tb.InvalidArgument):
                publisher.loan(shape, dtype=torch.uint8)


def test_a_loan_may_be_like_another_tensor(torch: ModuleType) -> None:
    array = np.zeros((2, 3), np.int16)
    tensor = torch.zeros(4, 5, dtype=torch.bfloat16)
    with tb.Publisher("topic") as publisher:
        like_array = publisher.loan(like=array)
        like_tensor = publisher.loan(like=tensor)
        reshaped = publisher.loan((7,), like=array)
        converted = publisher.loan(like=array, dtype=torch.float16)
    assert (type(like_array), like_array.shape, like_array.dtype) == (np.ndarray, (2, 3), np.int16)
    assert type(like_tensor) is torch.Tensor
    assert (like_tensor.shape, like_tensor.dtype) == ((4, 5), torch.bfloat16)
    assert (reshaped.shape, reshaped.dtype) == ((7,), np.int16)
    assert (converted.shape, converted.dtype) == ((2, 3), torch.float16)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_a_loan_may_be_zero_dimensional_or_empty(shape: tuple[int, ...]) -> None:
    with joined() as (publisher, subscriber):
        loan = publisher.loan(shape, dtype="float32")
        loan[...] = 7
        publisher.publish(loan)
        received = subscriber.receive().data
    assert received.shape == shape
    assert (received == 7).all()


def test_a_loan_is_not_copied() -> None:
    with joined() as (publisher, subscriber):
        loan = publisher.loan((100, 100), dtype="float32")
        loan[...] = np.arange(10_000).reshape(100, 100)
        publisher.publish(loan)
        received = subscriber.receive().data
        assert publisher.stats["bytes_copied"] == 0
        assert np.array_equal(received, np.arange(10_000).reshape(100, 100))
        publisher.publish(np.zeros(1000, np.uint8))
        assert publisher.stats["bytes_copied"] == 1000


def test_a_torch_loan_is_not_copied(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        loan = publisher.loan((100, 100), dtype=torch.bfloat16)
        loan.fill_(3)
        publisher.publish({"loan": loan})
        received = subscriber.receive().data["loan"]
        assert publisher.stats["bytes_copied"] == 0
    assert torch.equal(received, torch.full((100, 100), 3, dtype=torch.bfloat16))


def test_views_of_a_loan_are_not_copied_either() -> None:
    with joined() as (publisher, subscriber):
        loan = publisher.loan((10, 20), dtype="int32")
        loan[...] = np.arange(200).reshape(10, 20)
        publisher.publish({"row": loan[3], "corner": loan[2:4, ::-2], "turned": loan.T})
        received = subscriber.receive().data
        assert publisher.stats["bytes_copied"] == 0
    whole = np.arange(200).reshape(10, 20)
    assert np.array_equal(received["row"], whole[3])
    assert np.array_equal(received["corner"], whole[2:4, ::-2])
    assert np.array_equal(received["turned"], whole.T)


def test_an_array_of_another_library_over_a_loan_is_not_copied(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        loan = publisher.loan((4, 5), dtype="float32")
        loan[...] = 1
        publisher.publish(torch.from_numpy(loan))
        assert torch.equal(subscriber.receive().data, torch.ones(4, 5))
        assert publisher.stats["bytes_copied"] == 0


def test_a_loan_is_published_once() -> None:
    with joined() as (publisher, subscriber):
        loan = publisher.loan(10, dtype="uint8")
        publisher.publish(loan)
        with pytest.raises(tb.InvalidArgument, match=r"published before.*new loan"):
            publisher.publish(loan)
        with pytest.raises(tb.InvalidArgument, match="published before"):
            publisher.publish({"view": loan[2:4]})
        assert subscriber.receive().header.sequence == 0
        assert subscriber.try_receive() is None


def test_a_refused_message_leaves_its_loan_to_be_published() -> None:
    with joined() as (publisher, subscriber):
        loan = publisher.loan(10, dtype="uint8")
        loan[:] = 7
        spent = publisher.loan(10, dtype="uint8")
        publisher.publish(spent)
        with pytest.raises(tb.Unsupported):
            publisher.publish({"loan": loan, "what": object()})
        with pytest.raises(tb.InvalidArgument):
            publisher.publish([loan, spent])
        publisher.publish(loan)
        subscriber.receive()
        assert (subscriber.receive().data == 7).all()


def test_a_loan_of_one_publisher_may_be_published_by_another_of_the_process() -> None:
    with tb.Publisher("other") as other, joined() as (publisher, subscriber):
        loan = other.loan(10, dtype="uint8")
        loan[:] = 7
        publisher.publish(loan)
        assert (subscriber.receive().data == 7).all()
        assert publisher.stats["bytes_copied"] == 0


def test_a_received_tensor_may_be_published_again() -> None:
    with joined("one") as (one, hears_one), joined("two") as (two, hears_two):
        one.publish(np.arange(1000))
        two.publish(hears_one.receive().data)
        assert np.array_equal(hears_two.receive().data, np.arange(1000))


def test_a_closed_publisher_neither_lends_nor_publishes() -> None:
    publisher = tb.Publisher("topic")
    loan = publisher.loan(10, dtype="uint8")
    publisher.close()
    with pytest.raises(tb.Closed):
        publisher.publish(loan)
    with pytest.raises(tb.Closed):
        publisher.loan(10, dtype="uint8")
    loan[:] = 7  # it is still memory
    assert loan.sum() == 70


def test_a_dropped_loan_gives_its_memory_back() -> None:
    with tb.Publisher("topic") as publisher:
        before = used_bytes()
        loan = publisher.loan(100_000, dtype="uint8")
        view = loan[1:]
        assert used_bytes() >= before + 100_000
        del loan
        assert used_bytes() >= before + 100_000
        del view
        assert used_bytes() == before


def test_a_dropped_torch_loan_gives_its_memory_back(torch: ModuleType) -> None:
    with tb.Publisher("topic") as publisher:
        before = used_bytes()
        loan = publisher.loan(100_000, dtype=torch.uint8)
        view = loan[1:]
        del loan
        assert used_bytes() >= before + 100_000
        del view
        assert used_bytes() == before


def test_a_published_loan_without_readers_gives_its_memory_back() -> None:
    with tb.Publisher("topic") as publisher:
        before = used_bytes()
        publisher.publish(publisher.loan(100_000, dtype="uint8"))
        assert used_bytes() == before


def test_a_loan_that_is_kept_after_publish_is_not_reused_under_its_holder() -> None:
    with joined() as (publisher, subscriber):
        kept = publisher.loan(10_000, dtype="uint8")
        kept[:] = 7
        publisher.publish(kept)
        received = subscriber.receive().data
        address = received.__array_interface__["data"][0]
        del received
        for _ in range(20):  # would take the memory if it were free
            loan = publisher.loan(10_000, dtype="uint8")
            loan[:] = 9
            publisher.publish(loan)
            assert subscriber.receive().data.__array_interface__["data"][0] != address
        assert (kept == 7).all()


def test_freed_memory_is_used_again() -> None:
    with joined() as (publisher, subscriber):
        segments = set()
        for number in range(100):
            loan = publisher.loan(4 << 20, dtype="uint8")
            loan[0] = number
            publisher.publish(loan)
            del loan
            assert subscriber.receive().data[0] == number
            segments.add(tb.participant().arena["segments"])
        assert segments == {1}


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ({"shape": (3,)}, tb.InvalidArgument, "needs dtype="),
        ({"dtype": "uint8"}, tb.InvalidArgument, "needs shape="),
        ({"like": [1, 2]}, tb.InvalidArgument, "like=list: expected a tensor"),
        ({"shape": (2, -1), "dtype": "uint8"}, tb.InvalidArgument, "shape=.*from 0"),
        ({"shape": (2**40, 2**40), "dtype": "uint8"}, tb.InvalidArgument, "reach beyond"),
        ({"shape": (2**64,), "dtype": "uint8"}, tb.InvalidArgument, "shape"),
        ({"shape": 1.5, "dtype": "uint8"}, tb.InvalidArgument, "shape"),
        ({"shape": "abc", "dtype": "uint8"}, tb.InvalidArgument, "shape"),
        ({"shape": (1,) * 65, "dtype": "uint8"}, tb.InvalidArgument, "65 dimensions"),
        ({"shape": 2**50, "dtype": "uint8"}, tb.OutOfMemory, "byte budget.*TENSORBUS_BUDGET"),
        ({"shape": 1, "dtype": "nonsense"}, tb.Unsupported, "nonsense"),
        ({"shape": 1, "dtype": "\ud800"}, tb.Unsupported, r"dtype='\\ud800'"),
        ({"shape": 1, "dtype": object}, tb.Unsupported, "object"),
        ({"shape": 1, "dtype": "bfloat16"}, tb.Unsupported, r"dtype=torch\.bfloat16"),
    ],
)
def test_a_loan_that_makes_no_sense_is_refused(
    arguments: dict[str, object], error: type[tb.Error], why: str
) -> None:
    with tb.Publisher("topic") as publisher, pytest.raises(error, match=why):
        publisher.loan(**arguments)
