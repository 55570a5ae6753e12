"""A forked child of a process that has used PyTorch's threads: nothing of ours waits for them.

The child has none of these threads, and GNU OpenMP waits for them in vain: what PyTorch does in
parallel never ends there. Each of these programs would hang; it is given up after some time.
"""

from __future__ import annotations

import logging
import os
import queue
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from support.contexts import OURS, context_of
from support.harness import PATIENCE
from support.torch_kinds import NESTED, SPARSE
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")
LARGE = 100_000  # elements: PyTorch shares work between threads from 32,768 on


def be_quiet() -> None:
    warnings.simplefilter("ignore")  # "beta", "prototype", "deprecated"
    logging.disable(logging.WARNING)


def use_threads() -> None:
    import torch

    be_quiet()
    torch.set_num_threads(2)
    torch.rand(2_000_000).sum()


def from_child(work: Callable[..., Any], *arguments: Any) -> Any:
    """What a child answers; it is killed if it does not."""
    use_threads()
    context = context_of(OURS, "fork")
    outbox = context.Queue()
    child = context.Process(target=answer, args=(work, arguments, outbox), daemon=True)
    child.start()
    try:
        error, result = outbox.get(timeout=PATIENCE)
    except queue.Empty:
        child.kill()
        raise AssertionError("the child hangs") from None
    assert not error, error
    return result


def answer(work: Callable[..., Any], arguments: Any, outbox: Any) -> None:
    try:
        outbox.put(("", work(*arguments)))
    except BaseException:
        outbox.put((traceback.format_exc(), None))


def make(what: str) -> Any:
    """Large tensors, made without threads."""
    import numpy as np
    import torch

    numbers = np.arange(LARGE, dtype=np.float32)
    tensor = torch.from_numpy(numbers)
    if what == "array":
        return numbers
    if what == "transposed":
        return tensor.view(100, -1).t()
    if what == "with holes":
        return tensor[::2]
    if what == "conjugate":
        return torch.view_as_complex(tensor.view(-1, 2)).conj()
    if what == "negative":
        return torch._neg_view(tensor)
    if what == "sparse":
        places = torch.from_numpy(np.arange(LARGE).reshape(1, -1) % 1000)
        return torch.sparse_coo_tensor(places, tensor, (1000,), check_invariants=False)
    if what == "quantized":
        return torch._make_per_tensor_quantized_tensor(
            torch.from_numpy(numbers.astype(np.uint8)), 0.1, 0
        )
    return tensor


WHATS = ["plain", "array", "transposed", "with holes", "conjugate", "negative", "quantized"]


def first_of(item: Any) -> Any:
    return str(type(item)), tuple(item.shape)


def put(what: str) -> None:
    item = from_child(make, what)
    assert first_of(item) == first_of(make(what))


@pytest.mark.parametrize("what", WHATS)
def test_a_child_puts_large_tensors(warm: Warm, what: str) -> None:
    warm.run(put, what)


def send_on(here: Any, what: str) -> str:
    here.send(make(what))
    return "sent"


def send(what: str) -> None:
    context = context_of(OURS, "fork")
    here, there = context.Pipe()
    assert from_child(send_on, here, what) == "sent"
    assert first_of(there.recv()) == first_of(make(what))


@pytest.mark.parametrize("what", WHATS)
def test_a_child_sends_large_tensors(warm: Warm, what: str) -> None:
    warm.run(send, what)


def describe(items: Any) -> list[str]:
    item = items.get(timeout=PATIENCE)
    return [item.layout.__repr__(), str(item.is_nested)]


def get(name: str) -> None:
    use_threads()
    items = context_of(OURS, "fork").Queue()
    item = make("sparse") if name == "large" else {**SPARSE, **NESTED}[name]()
    items.put(item)
    assert from_child(describe, items) == [repr(item.layout), str(item.is_nested)]


@pytest.mark.parametrize("name", ["large", *SPARSE, *NESTED])
def test_a_child_gets_sparse_and_nested_tensors(warm: Warm, name: str) -> None:
    warm.run(get, name)


def put_one_of_each() -> None:
    be_quiet()
    items = context_of(OURS, "fork").Queue()
    before = set(sys.modules)
    for item in (*map(make, WHATS), *(kind() for kind in {**SPARSE, **NESTED}.values())):
        items.put(item)
        items.get(timeout=PATIENCE)
    assert not [name for name in set(sys.modules) - before if name.startswith("tensorbus.")]


def test_no_feeder_imports_a_module_that_a_child_forked_meanwhile_would_wait_for(
    warm: Warm,
) -> None:
    """The lock of a module that a thread imports is held for ever in a child without the thread."""
    warm.run(put_one_of_each)


def publish_and_receive(what: str) -> Any:
    import tensorbus as tb

    item = make(what)
    with tb.Publisher("topic") as publisher, tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish({"item": item})
        received = subscriber.receive()
        copied = received.copy().data["item"]
    with tb.share(item) as shared:
        attached = tb.attach(shared.handle, access="private")
    return [first_of(one) for one in (received.data["item"], copied, attached)]


def publish(what: str) -> None:
    assert from_child(publish_and_receive, what) == [first_of(make(what))] * 3


@pytest.mark.parametrize("what", ["plain", "transposed", "conjugate", "negative", "sparse"])
def test_a_child_publishes_receives_copies_and_shares_large_tensors(warm: Warm, what: str) -> None:
    warm.run(publish, what)


def pack(what: str) -> int:
    from tensorbus.messages import Message

    @dataclass
    class Numbers(Message):
        x: Any

    message, _ = Numbers.from_bytes(Numbers(x=make(what)).to_bytes())
    return len(message.x)


def to_bytes(what: str) -> None:
    assert from_child(pack, what) == len(make(what))


@pytest.mark.parametrize("what", ["plain", "transposed", "conjugate", "negative"])
def test_a_child_makes_messages_of_bytes(warm: Warm, what: str) -> None:
    warm.run(to_bytes, what)


def in_a_plain_fork() -> None:
    """Not by our processes: os.fork alone."""
    use_threads()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        told = publish_and_receive("transposed")
        os.write(writer, repr(told).encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], PATIENCE)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert ready, "the child hangs"
    assert os.read(reader, 4096).decode() == repr([first_of(make("transposed"))] * 3)


def test_a_child_of_os_fork_publishes(warm: Warm) -> None:
    warm.run(in_a_plain_fork)
