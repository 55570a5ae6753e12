"""What is received offers DLPack: a sample of one tensor, and plain memory."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, joined, tell

# A sample offers DLPack itself. ------------------------------------------------------------------


def test_a_sample_of_one_tensor_is_a_tensor_of_any_library(torch: ModuleType) -> None:
    for message in (np.arange(3.0), torch.arange(3.0), memoryview(np.arange(3.0))):
        with joined() as (publisher, subscriber):
            publisher.publish(message)
            sample = subscriber.receive()
            assert sample.__dlpack_device__() == (1, 0)
            assert torch.from_dlpack(sample).tolist() == [0, 1, 2]
            assert np.from_dlpack(sample).tolist() == [0, 1, 2]


def test_jax_takes_a_sample() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    with joined() as (publisher, subscriber):
        publisher.publish(np.arange(3, dtype=np.float32))
        assert jax.dlpack.from_dlpack(subscriber.receive()).tolist() == [0, 1, 2]


@pytest.mark.parametrize("message", [7, [], [np.zeros(1), np.zeros(1)], {"only": np.zeros(1)}])
def test_a_sample_of_another_number_of_tensors_refuses(message: Any) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(message)
        with pytest.raises(tb.Unsupported, match=r"this sample has . tensors.*\.data"):
            np.from_dlpack(subscriber.receive())


def test_a_sample_of_a_conjugate_view_refuses(torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(torch.ones(3, dtype=torch.complex64).conj())
        with pytest.raises(tb.Unsupported, match="no conjugate"):
            torch.from_dlpack(subscriber.receive())


@pytest.mark.parametrize("taker", ["torch", "numpy", "jax", "capsule", "memoryview"])
def test_what_was_made_of_a_sample_holds_its_lease(taker: str) -> None:
    library = None if taker in ("capsule", "memoryview") else pytest.importorskip(taker)
    asked = "dlpack" if taker == "memoryview" else None
    with joined(subscriber={"library": asked}) as (publisher, subscriber):
        publisher.publish(np.arange(10_000, dtype=np.float32))  # a page and more
        sample = subscriber.receive()
        if taker == "memoryview":
            made: Any = memoryview(sample.data)
        elif taker == "jax":
            made = library.dlpack.from_dlpack(sample)
        else:
            made = sample.__dlpack__() if library is None else library.from_dlpack(sample)
        del sample
        gc.collect()
        assert subscriber.stats["held"] == 1
        del made
        gc.collect()
        assert subscriber.stats["held"] == 0


# Received memory. --------------------------------------------------------------------------------


def test_memory_says_what_it_is_and_gives_only_what_it_has() -> None:
    with joined(subscriber={"library": "dlpack"}) as (publisher, subscriber):
        publisher.publish(np.arange(6, dtype=np.int16).reshape(2, 3).T)
        memory = subscriber.receive().data
        assert (memory.dtype, memory.shape, memory.strides) == ("int16", (3, 2), (1, 3))
        assert memory.writable
        assert memory.__dlpack_device__() == (1, 0)
        assert repr(memory) == "<tensorbus.Memory int16 (3, 2)>"
        assert '"dltensor"' in repr(memory.__dlpack__())
        assert '"dltensor"' in repr(memory.__dlpack__(max_version=(0, 8)))
        assert '"dltensor_versioned"' in repr(memory.__dlpack__(max_version=(1, 0)))
        assert memory.__dlpack__(stream=None, dl_device=(1, 0), copy=False)
        with pytest.raises(BufferError, match="main memory"):
            memory.__dlpack__(dl_device=(2, 0))
        assert memory.__dlpack__(stream=-1)
        with pytest.raises(ValueError, match="stream"):
            memory.__dlpack__(stream=1)
        with pytest.raises(TypeError):
            memory.__dlpack__((1, 0))
        view = memoryview(memory)
        assert (view.readonly, view.tolist()) == (False, [[0, 3], [1, 4], [2, 5]])
        view[0, 0] = 7
        assert memoryview(memory)[0, 0] == 7


def test_memory_for_reading_says_so() -> None:
    with joined(subscriber={"library": "dlpack", "access": "read"}) as (publisher, subscriber):
        publisher.publish(np.arange(6, dtype=np.int16).reshape(2, 3))
        memory = subscriber.receive().data
        assert not memory.writable
        assert repr(memory) == "<tensorbus.Memory int16 (2, 3) read-only>"
        assert memoryview(memory).readonly
        with pytest.raises(TypeError):
            memoryview(memory)[0, 0] = 1


@pytest.mark.parametrize("taker", ["numpy", "torch"])
def test_a_copy_by_dlpack_is_the_takers_own(taker: str) -> None:
    library = pytest.importorskip(taker)
    expanded = np.broadcast_to(np.arange(3.0), (4, 3))
    for sent in (np.arange(3.0), np.arange(3.0)[::-1], expanded, np.arange(5000.0)):
        with joined() as (publisher, subscriber):
            publisher.publish(sent)
            sample = subscriber.receive()
            copy = np.asarray(library.from_dlpack(sample, copy=True))
            assert copy.tolist() == sent.tolist()
            copy[0] = 7
            assert sample.data.tolist() == sent.tolist()


def take_flipped(topic: str) -> None:
    """In a process of its own: PyTorch aborts the process for a negative stride."""
    import torch

    with tb.Subscriber(topic, timeout=PATIENCE) as subscriber:
        sample = subscriber.receive()
        with pytest.raises(BufferError, match="negative strides"):
            sample.__dlpack__(copy=False)
        tell(torch.from_dlpack(sample).tolist())
    with tb.Subscriber(topic, library="dlpack", timeout=PATIENCE) as subscriber:
        tell(torch.from_dlpack(subscriber.receive().data).tolist())


def test_a_flipped_image_is_copied_for_dlpack(elsewhere: Elsewhere, torch: ModuleType) -> None:
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)[..., ::-1]
    with tb.Publisher("image", history=1) as publisher:
        publisher.publish(image)
        process = elsewhere.start(take_flipped, "image")
        assert process.hear() == image.tolist()
        assert process.hear() == image.tolist()
        process.finish()


def test_memory_can_be_published_again() -> None:
    with joined(subscriber={"library": "dlpack"}) as (publisher, subscriber):
        publisher.publish([np.arange(3)])
        publisher.publish({"again": subscriber.receive().data[0]})
        assert np.from_dlpack(subscriber.receive().data["again"]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("sender", ["numpy", "torch"])
def test_a_sample_of_one_tensor_is_an_array_for_numpy(sender: str, torch: ModuleType) -> None:
    with tb.Publisher("t") as publisher, tb.Subscriber("t", timeout=PATIENCE) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        sent = np.arange(100.0).repeat(20).reshape(2, 1000)  # a page and more
        publisher.publish(sent if sender == "numpy" else torch.from_numpy(sent))
        sample = subscriber.receive()
        array = np.asarray(sample)
        assert (array.shape, array.dtype, array.flags.writeable) == ((2, 1000), np.float64, True)
        assert array.ctypes.data == torch.as_tensor(sample).data_ptr()  # nothing is copied
        assert np.mean(sample) == 49.5
        narrow = np.asarray(sample, dtype="int8")
        assert (narrow == sent).all()
        assert narrow.dtype == np.int8
        assert np.array(sample).flags.writeable
        del sample
        assert (array == sent).all()  # which holds the sample


def test_a_sample_of_a_message_is_no_array_for_numpy() -> None:
    with tb.Publisher("t") as publisher, tb.Subscriber("t", timeout=PATIENCE) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for message in ({"a": np.ones(2), "b": np.ones(3)}, 7, "text"):
            publisher.publish(message)
            with pytest.raises(tb.Unsupported, match=r"one tensor by itself, use \.data"):
                np.asarray(subscriber.receive())
