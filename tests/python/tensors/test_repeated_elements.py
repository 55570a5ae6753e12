"""Sizes are numbers of a peer: receiving costs no more memory than the bytes that it has sent."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest

import tensorbus as tb
from support.harness import joined
from tensorbus._core import Outgoing, TensorFlags
from tensorbus._tensors.numpy_arrays import learn

MANY = 1 << 40  # bytes that no machine has
CONJUGATE, NEGATIVE = TensorFlags.CONJUGATE.value, TensorFlags.NEGATIVE.value


def received(
    array: Any, strides: list[int], *, flags: int = 0, library: Any = None, dtype: str = ""
) -> Any:
    """What arrives of these sizes and strides (in elements) over the memory of an array.

    A descriptor names no Python object, so `array` may be as large as it says.
    """
    with joined(subscriber={"library": library}) as (publisher, subscriber):
        learn()
        outgoing = Outgoing()
        address = array.__array_interface__["data"][0]
        name = "uint8" if dtype else array.dtype.name
        outgoing.add_memory(address, name, array.shape, strides, flags, (array,))
        fields = msgspec.msgpack.encode(["numpy.ndarray", dtype, 0]) if dtype else b""
        if dtype:
            fields = msgspec.msgpack.encode(msgspec.msgpack.Ext(3, fields))
        publisher._core.publish(outgoing, fields, None)
        return subscriber.receive().data


def repeated(values: Any) -> Any:
    return np.broadcast_to(values, (MANY, *values.shape))


@pytest.mark.parametrize("flags", [CONJUGATE, NEGATIVE, CONJUGATE | NEGATIVE])
def test_a_conjugate_or_negative_view_of_repeated_elements_stays_a_view(flags: int) -> None:
    values = np.array([1 + 2j, 3 - 4j], np.complex64)
    expected = values.conj() if flags & CONJUGATE else values
    expected = -expected if flags & NEGATIVE else expected
    array = received(repeated(values), [0, 1], flags=flags)
    assert array.shape == (MANY, 2)
    assert array[0].tolist() == array[-1].tolist() == expected.tolist()


def test_so_does_one_whose_windows_overlap() -> None:
    values = np.arange(1, 6, dtype=np.complex64) * 1j
    windows = np.lib.stride_tricks.sliding_window_view(values[::-1], 3)
    array = received(repeated(windows), [0, -1, -1], flags=CONJUGATE)
    assert array.shape == (MANY, 3, 3)
    assert array[7].tolist() == windows.conj().tolist()


def test_an_element_without_dimensions_is_still_an_array() -> None:
    array = received(np.array(1 + 2j), [], flags=CONJUGATE)
    assert (type(array), array.shape, array[()]) == (np.ndarray, (), 1 - 2j)


def test_negative_strides_are_copied_for_torch_once_for_each_element(torch: ModuleType) -> None:
    array = repeated(np.arange(3.0)[::-1])
    tensor = received(array, [0, -1], library="torch")
    assert tensor.shape == (MANY, 3)
    assert tensor[5].tolist() == [2, 1, 0]


def test_windows_of_negative_strides_are_refused_to_torch(torch: ModuleType) -> None:
    windows = np.lib.stride_tricks.as_strided(np.zeros(1 << 20)[::-1], (1 << 19, 1 << 19), (-8, -8))
    with pytest.raises(tb.Unsupported, match="overlap"):
        received(windows, [-1, -1], library="torch")


def test_a_foreign_byte_order_is_turned_once_for_each_element(torch: ModuleType) -> None:
    raw = np.arange(3, dtype=">i4").view(np.uint8).reshape(3, 4)
    tensor = received(repeated(raw), [0, 4, 1], library="torch", dtype=">i4")
    assert tensor.shape == (MANY, 3)
    assert tensor[5].tolist() == [0, 1, 2]


def test_repeated_elements_are_refused_to_jax_which_would_copy_them() -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    few = received(np.broadcast_to(np.float32(7), 100), [0], library="jax")
    assert few.tolist() == [7] * 100
    with pytest.raises(tb.Unsupported, match="JAX would copy"):
        received(repeated(np.zeros(1, np.float32)), [0, 1], library="jax")


def test_dlpack_copies_each_element_once() -> None:
    memory = received(repeated(np.arange(3.0)), [0, 1], library="dlpack")
    copy = np.from_dlpack(memory, copy=True)
    assert copy.shape == (MANY, 3)
    assert copy[9].tolist() == [0, 1, 2]


BEYOND = np.array([ord("a"), 0x110000], "<u4")  # a str has no such character


@pytest.mark.parametrize("order", "<>")
def test_an_array_of_text_that_is_none_is_refused(order: str) -> None:
    raw = BEYOND.astype(f"{order}u4").view(np.uint8)
    with pytest.raises(tb.MessageError, match="code point 0x110000"):
        received(repeated(raw), [0, 1], dtype=f"{order}U2")


def test_so_is_one_of_structures_and_a_scalar() -> None:
    parts = {
        **{"names": ["n", "text"], "formats": ["u1", ["<U2", [1]]], "offsets": [0, 1]},
        **{"titles": [None, None], "itemsize": 9, "aligned": False, "record": False},
    }
    data = bytes(1) + BEYOND.tobytes()
    for record in (
        ["numpy.scalar", parts, data],
        ["numpy.scalar", "<U2", BEYOND.tobytes()],
    ):
        fields = msgspec.msgpack.encode(msgspec.msgpack.Ext(3, msgspec.msgpack.encode(record)))
        with joined() as (publisher, subscriber):
            publisher._core.publish(Outgoing(), fields, None)
            with pytest.raises((tb.MessageError, tb.ProtocolError)):
                _ = subscriber.receive().data


def overlapping_in_parts(raw: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Two elements that are two bytes apart."""
    return np.ndarray((2,), "<U1", raw, strides=(2,))


def test_text_whose_elements_overlap_in_parts_arrives_as_it_is() -> None:
    array = overlapping_in_parts(np.array([0x00020000, 0x0000_0001], "<u4"))
    with joined() as (publisher, subscriber):
        publisher.publish(array)
        arrived = subscriber.receive().data
    assert (arrived.strides, arrived.tolist()) == ((2,), array.tolist())


def test_text_whose_elements_overlap_in_parts_is_checked() -> None:
    array = overlapping_in_parts(np.array([0x0011_0000, 0], "<u4"))
    with joined() as (publisher, _), pytest.raises(tb.Error, match="code point 0x110000"):
        publisher.publish(array)
