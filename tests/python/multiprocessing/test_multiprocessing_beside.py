"""tensorbus.multiprocessing beside torch.multiprocessing, which stays as it is."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.managers import BaseManager
from typing import Any

import pytest

from support.contexts import OURS, all_methods, context_of
from support.harness import PATIENCE
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")
TORCHS = "torch.multiprocessing"


def only_import() -> None:
    from multiprocessing.reduction import ForkingPickler

    import numpy as np
    import torch
    import torch.multiprocessing

    kinds = (torch.Tensor, torch.nn.Parameter, torch.UntypedStorage, np.ndarray)

    def look() -> list[Any]:
        known = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        methods = [vars(torch.UntypedStorage).get(name) for name in ("is_shared", "_new_shared")]
        return [
            *(known.get(kind) for kind in kinds),
            *methods,
            torch.UntypedStorage.share_memory_,
            dict(vars(torch.multiprocessing)),
            dict(multiprocessing.managers.__dict__),
        ]

    import multiprocessing.managers

    before = look()
    importlib.import_module(OURS)
    assert look() == before


def test_importing_it_changes_nothing(warm: Warm) -> None:
    warm.run(only_import)


def write_and_put(tensor: Any, outbox: Any, done: Any) -> None:
    tensor.add_(1)
    outbox.put(tensor)
    outbox.put(tensor[2:5])
    done.wait()


def share_by_torchs(method: str) -> None:
    import torch

    context = context_of(TORCHS, method)
    tensor = torch.ones(10).share_memory_()
    outbox, done = context.Queue(), context.Event()
    other = context.Process(target=write_and_put, args=(tensor, outbox, done))
    other.start()
    whole, part = outbox.get(timeout=PATIENCE), outbox.get(timeout=PATIENCE)
    assert (tensor == 2).all()
    whole.add_(1)
    assert (tensor == 3).all()
    assert (part == 3).all()
    assert part.untyped_storage().nbytes() == whole.untyped_storage().nbytes()
    assert part.storage_offset() == 2
    done.set()
    other.join()
    assert other.exitcode == 0


def use_torchs_after_an_import(method: str) -> None:
    importlib.import_module(OURS)
    share_by_torchs(method)
    assert "tensorbus-keeper" not in _threads()


def _threads() -> set[str]:
    import threading

    return {thread.name for thread in threading.enumerate()}


@all_methods
def test_a_program_that_imports_it_shares_as_pytorch_does(warm: Warm, method: str) -> None:
    warm.run(use_torchs_after_an_import, method)


def send_and_wait(tensor: Any, outbox: Any, seen: Any) -> None:
    outbox.put((tensor.is_shared(), tensor))
    seen.wait()


def no_participant_in_others() -> None:
    """A process that PyTorch started does not join the bus because its parent had."""
    import torch

    context_of(OURS, "fork").Queue()  # our means are in use
    torchs = context_of(TORCHS, "fork")
    outbox, seen = torchs.SimpleQueue(), torchs.Event()
    before = set(os.listdir(tensorbus_directory()))
    other = torchs.Process(target=send_and_wait, args=(torch.zeros(3), outbox, seen))
    other.start()
    shared, tensor = outbox.get()
    assert not shared
    assert tensor.tolist() == [0, 0, 0]
    assert set(os.listdir(tensorbus_directory())) == before
    seen.set()
    other.join()


def tensorbus_directory() -> str:
    import tensorbus as tb

    return tb.participant().domain


def test_a_process_that_pytorch_started_does_not_join_the_bus(warm: Warm) -> None:
    warm.run(no_participant_in_others)


def use_both(method: str) -> None:
    import torch

    ours = context_of(OURS, method)
    tensor = torch.zeros(3).share_memory_()
    other = ours.Process(target=tensor_add, args=(tensor,))
    other.start()
    other.join()
    assert tensor.tolist() == [1, 1, 1]
    share_by_torchs(method)


def tensor_add(tensor: Any) -> None:
    tensor.add_(1)


@all_methods
def test_pytorchs_own_ways_are_the_same_beside_ours(warm: Warm, method: str) -> None:
    warm.run(use_both, method)


def get_and_add(inbox: Any, done: Any) -> None:
    inbox.get(timeout=PATIENCE).add_(1)
    done.set()


def through_both(strategy: str) -> None:
    """A tensor that PyTorch has shared already, sent by ours: all who have it have one memory."""
    import torch

    torch.multiprocessing.set_sharing_strategy(strategy)
    torchs, ours = context_of(TORCHS, "fork"), context_of(OURS, "fork")
    tensor = torch.zeros(1000).share_memory_()
    view = tensor[10:]
    inbox, done, sent = torchs.SimpleQueue(), torchs.Event(), torchs.Event()
    first = torchs.Process(target=add_when_told, args=(tensor, sent, inbox))
    first.start()
    items = ours.Queue()
    second = ours.Process(target=get_and_add, args=(items, done))
    second.start()
    items.put(tensor)
    assert done.wait(PATIENCE)
    assert (tensor == 1).all()
    sent.set()
    assert inbox.get() == 1  # what the other process of ours had written
    assert (tensor == 2).all()
    assert (view == 2).all()
    assert tensor.is_shared()
    for other in (first, second):
        other.join()
        assert other.exitcode == 0


def add_when_told(tensor: Any, told: Any, outbox: Any) -> None:
    told.wait()
    seen = float(tensor[0])
    tensor.add_(1)
    outbox.put(seen)


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_what_pytorch_has_shared_stays_one_memory_when_ours_send_it(
    warm: Warm, strategy: str
) -> None:
    warm.run(through_both, strategy)


def shared_twice() -> None:
    import torch

    context = context_of(OURS, "fork")
    items = context.Queue()
    items.put(torch.zeros(3))
    tensor = items.get(timeout=PATIENCE)
    place = tensor.data_ptr()
    assert tensor.is_shared()
    tensor.share_memory_()  # it lies in shared memory: nothing to do
    assert tensor.data_ptr() == place
    torchs = context_of(TORCHS, "fork")
    outbox, done = torchs.Queue(), torchs.Event()
    other = torchs.Process(target=get_and_add, args=(outbox, done))
    other.start()
    outbox.put(tensor)  # by reference, through PyTorch's queue
    assert done.wait(PATIENCE)
    other.join()
    assert tensor.tolist() == [1, 1, 1]


def test_what_lies_in_memory_of_the_bus_goes_by_reference_by_pytorchs_queues(warm: Warm) -> None:
    warm.run(shared_twice)


def as_it_is(item: Any) -> Any:
    return item


def use_the_standard_librarys(method: str) -> None:
    """In a program whose processes are ours, too."""
    import numpy as np

    ours = context_of(OURS, method)
    with ProcessPoolExecutor(1, mp_context=ours) as executor:
        assert executor.submit(as_it_is, np.ones(3)).result().tolist() == [1, 1, 1]
        theirs = multiprocessing.get_context(method)
        here, there = theirs.Pipe()
        sent = np.zeros(3)
        here.send(sent)
        received = there.recv()
        received[0] = 5
        assert sent[0] == 0
        again = [there]
        again[0].send(received)  # a copy, as the standard library has it
        received[1] = 6
        assert here.recv().tolist() == [5, 0, 0]


@all_methods
def test_the_standard_librarys_pipes_copy_arrays_beside_ours(warm: Warm, method: str) -> None:
    warm.run(use_the_standard_librarys, method)


class Remote(BaseManager):
    """One as programs write it to talk with other machines."""


class Box:
    """What it manages."""

    def take(self, item: Any) -> Any:
        return item


Remote.register("Box", Box)


def manage_over_tcp() -> None:
    import numpy as np

    context_of(OURS, "fork").Queue()
    with Remote(address=("127.0.0.1", 0), ctx=multiprocessing.get_context("fork")) as manager:
        sent = np.zeros(3)
        received = manager.Box().take(sent)  # type: ignore[attr-defined]
        received[0] = 1
        assert sent[0] == 0


def test_a_manager_of_the_standard_librarys_copies(warm: Warm) -> None:
    warm.run(manage_over_tcp)
