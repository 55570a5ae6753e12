"""tensorbus.multiprocessing: what torch.multiprocessing promises, and what it cannot."""

from __future__ import annotations

import importlib
import logging
import os
import queue
import resource
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness import PATIENCE, Elsewhere, eventually
from test_imports import without_torch_and_numpy

OURS = "tensorbus.multiprocessing"
METHODS = ["fork", "spawn"]

# The bodies run in processes of their own: torch.multiprocessing and ours both change how all of
# a process pickles.
both = pytest.mark.parametrize("library", ["torch.multiprocessing", OURS])
all_methods = pytest.mark.parametrize("method", METHODS)


def context_of(library: str, method: str) -> Any:
    return importlib.import_module(library).get_context(method)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def used_bytes() -> int:
    import tensorbus as tb

    return tb.participant().arena["used_bytes"]


def torch_files_are_mapped() -> bool:
    return "/dev/shm/torch_" in Path("/proc/self/maps").read_text()


@pytest.fixture(autouse=True)
def _needs_torch(torch: Any) -> None:
    pass


# What both do.


def answer(inbox: Any, outbox: Any) -> None:
    """The other process: does what it is told with what it gets, and keeps it."""
    import torch

    kept = []
    for what, item in iter(inbox.get, None):
        kept.append(item)
        with torch.no_grad():
            if what == "add":
                item.add_(1)
                outbox.put("added")
            elif what == "same":
                outbox.put(item.data_ptr() == kept[-2].data_ptr())
            elif what == "describe":
                outbox.put(
                    [
                        (type(one).__name__, one.requires_grad, one.is_leaf, tuple(one.shape))
                        for one in item
                    ]
                )
            elif what == "views":
                item["part"].fill_(9)
                outbox.put(item["whole"].tolist())
            elif what == "shared":
                outbox.put(item.is_shared())
            elif what == "echo":
                outbox.put(item)


def share_by_queue(library: str, method: str) -> None:
    import torch

    context = context_of(library, method)
    inbox, outbox = context.SimpleQueue(), context.Queue()
    other = context.Process(target=answer, args=(inbox, outbox))
    other.start()

    def ask(what: str, item: Any) -> Any:
        inbox.put((what, item))
        return outbox.get(timeout=PATIENCE)

    whole = torch.zeros(6)
    view = whole[2:4]  # made before anything was sent
    assert not whole.is_shared()
    assert ask("add", whole) == "added"
    assert whole.tolist() == [1] * 6
    assert view.tolist() == [1, 1]
    assert whole.is_shared()
    assert view.is_shared()
    assert ask("same", whole)
    assert ask("add", view) == "added"
    assert whole.tolist() == [1, 1, 2, 2, 1, 1]
    assert ask("shared", whole)
    assert ask("views", {"whole": whole, "part": view}) == [1, 1, 9, 9, 1, 1]
    assert whole.tolist() == [1, 1, 9, 9, 1, 1]

    parameter = torch.nn.Parameter(torch.ones(2))
    leaf = torch.ones(3, requires_grad=True)
    assert ask("describe", [parameter, leaf, torch.empty(0, 4), torch.ones((), device="meta")]) == [
        ("Parameter", True, True, (2,)),
        ("Tensor", True, True, (3,)),
        ("Tensor", False, True, (0, 4)),
        ("Tensor", False, True, ()),
    ]
    for history in (leaf * 2, [leaf * 2]):
        with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
            inbox.put(("echo", history))
    back = ask("echo", whole)  # received there, and sent on
    back[0] = 77
    assert whole[0] == 77
    frozen = torch.nn.Linear(2, 2).requires_grad_(False)
    state = ask("echo", frozen.state_dict())
    state["bias"].fill_(3)  # it is the module's own
    assert (frozen.bias == 3).all()
    inbox.put(None)
    other.join()
    assert other.exitcode == 0


@both
@all_methods
def test_tensors_are_shared_by_queues(elsewhere: Elsewhere, library: str, method: str) -> None:
    elsewhere.run(share_by_queue, library, method)


def send_back(connection: Any, done: Any) -> None:
    item = connection.recv()
    item["a"].mul_(2)
    connection.send([item["a"], "text"])
    done.wait()


def share_by_pipe(library: str, method: str) -> None:
    import torch

    context = context_of(library, method)
    here, there = context.Pipe()
    done = context.Event()
    other = context.Process(target=send_back, args=(there, done))
    other.start()
    tensor = torch.ones(3)
    here.send({"a": tensor})
    assert here.poll(PATIENCE)
    received, text = here.recv()
    received[0] = 5
    assert text == "text"
    assert tensor.tolist() == [5, 2, 2]
    done.set()
    other.join()
    reader, writer = context.Pipe(duplex=False)
    with pytest.raises(OSError, match="read-only"):
        reader.send(tensor)
    writer.close()
    with pytest.raises(EOFError):
        reader.recv()


@both
@all_methods
def test_tensors_are_shared_by_pipes(elsewhere: Elsewhere, library: str, method: str) -> None:
    elsewhere.run(share_by_pipe, library, method)


def add_one(tensor: Any) -> Any:
    return tensor.add_(1)


def fail(_: Any) -> None:
    raise ValueError("no")


def share_by_pools(library: str, method: str) -> None:
    import torch

    context = context_of(library, method)
    one, other = torch.zeros(3), torch.zeros(3)
    with context.Pool(2) as pool:
        results = pool.map(add_one, [one, other])
        results[0][0] = 7
        assert one.tolist() == [7, 1, 1]
        assert other.tolist() == [1, 1, 1]
        assert pool.apply_async(add_one, (one,)).get(PATIENCE).tolist() == [8, 2, 2]
        assert list(pool.imap(len, [[1], [1, 2]])) == [1, 2]
        with pytest.raises(ValueError, match="no"):
            pool.apply(fail, (one,))
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        assert executor.submit(add_one, other).result(PATIENCE).tolist() == [2, 2, 2]
        assert other.tolist() == [2, 2, 2]
        with pytest.raises(ValueError, match="no"):
            executor.submit(fail, other).result(PATIENCE)


@both
@all_methods
def test_tensors_are_shared_by_pools(elsewhere: Elsewhere, library: str, method: str) -> None:
    elsewhere.run(share_by_pools, library, method)


def share_by_manager(library: str) -> None:
    import torch

    context = context_of(library, "fork")
    tensor = torch.zeros(3)
    with context.Manager() as manager:
        items = manager.dict()
        items["tensor"] = tensor
        items["tensor"][1] = 5
        assert tensor.tolist() == [0, 5, 0]
        names = manager.list([1])
        names.append({"x": tensor})
        assert names[1]["x"].data_ptr()


@both
def test_tensors_are_shared_by_managers(elsewhere: Elsewhere, library: str) -> None:
    elsewhere.run(share_by_manager, library)


def fill(index: int, tensor: Any, *others: Any) -> None:
    tensor[index] = index + 1


def raise_at_one(index: int, event: Any) -> None:
    if index == 1:
        raise ValueError("out of cheese")
    event.wait()  # for ever


def die_at_one(index: int, event: Any) -> None:
    if index == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    event.wait()


def exit_at_one(index: int, event: Any) -> None:
    if index == 1:
        sys.exit(3)
    event.wait()


def start_several(library: str, method: str) -> None:
    import torch

    logging.disable(logging.WARNING)  # PyTorch tells whom it ends
    mp = importlib.import_module(library)
    context = mp.get_context(method)
    tensor = torch.zeros(3).share_memory_()
    mp.start_processes(fill, (tensor,), 3, start_method=method)
    assert tensor.tolist() == [1, 2, 3]
    event = context.Event()
    with pytest.raises(mp.ProcessRaisedException, match="out of cheese") as raised:
        mp.start_processes(raise_at_one, (event,), 2, start_method=method)
    assert raised.value.error_index == 1
    with pytest.raises(mp.ProcessExitedException) as exited:
        mp.start_processes(die_at_one, (event,), 2, start_method=method)
    assert (exited.value.exit_code, exited.value.signal_name) == (-signal.SIGKILL, "SIGKILL")
    with pytest.raises(mp.ProcessExitedException) as exited:
        mp.start_processes(exit_at_one, (event,), 2, start_method=method)
    assert (exited.value.exit_code, exited.value.signal_name) == (3, None)
    started = mp.start_processes(fill, (tensor,), 2, join=False, start_method=method)
    assert len(started.pids()) == 2
    while not started.join():
        pass
    assert started.join()


@both
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_several_processes_run_one_function(
    elsewhere: Elsewhere, library: str, method: str
) -> None:
    elsewhere.run(start_several, library, method)


def train(model: Any, barrier: Any) -> None:
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    barrier.wait()
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()


def train_together(library: str, method: str) -> None:
    import torch

    context = context_of(library, method)
    model = torch.nn.Linear(2, 1)
    model.share_memory()
    assert all(parameter.is_shared() for parameter in model.parameters())
    before = model.bias.item()
    barrier = context.Barrier(2)
    workers = [context.Process(target=train, args=(model, barrier)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert model.bias.item() < before - 0.25  # both, or one of them, by three steps of 0.1


@both
@all_methods
def test_processes_train_one_model(elsewhere: Elsewhere, library: str, method: str) -> None:
    elsewhere.run(train_together, library, method)


def work_off(items: Any) -> None:
    while True:
        items.get()
        items.task_done()


def queue_up(library: str) -> None:
    context = context_of(library, "fork")
    full = context.Queue(1)
    with pytest.raises(queue.Empty):
        full.get_nowait()
    full.put([1])
    with pytest.raises(queue.Full):
        full.put(2, timeout=0.01)
    assert full.get(timeout=PATIENCE) == [1]
    full.close()
    full.join_thread()
    with pytest.raises(ValueError, match="closed"):
        full.put(3)
    items = context.JoinableQueue()
    worker = context.Process(target=work_off, args=(items,), daemon=True)
    worker.start()
    for number in range(10):
        items.put(number)
    items.join()
    worker.terminate()
    worker.join()
    with pytest.raises(ValueError, match="task_done"):
        context.JoinableQueue().task_done()


@both
def test_queues_are_full_empty_joined_and_closed(elsewhere: Elsewhere, library: str) -> None:
    elsewhere.run(queue_up, library)


def test_all_names_of_pytorchs_are_there(elsewhere: Elsewhere) -> None:
    def compare() -> None:
        import torch.multiprocessing as theirs

        import tensorbus.multiprocessing as ours

        names = {*theirs.__all__, "spawn", "start_processes", "ProcessContext", "SpawnContext"}
        names |= {"ProcessRaisedException", "ProcessExitedException"}
        assert [name for name in sorted(names) if not hasattr(ours, name)] == []
        assert ours.get_all_sharing_strategies() == theirs.get_all_sharing_strategies()
        ours.set_sharing_strategy("file_system")
        assert ours.get_sharing_strategy() == "file_system"
        with pytest.raises(AssertionError):
            ours.set_sharing_strategy("carrier_pigeon")
        ours.set_start_method("spawn", force=True)
        assert ours.get_start_method() == theirs.get_start_method() == "spawn"
        assert type(ours.get_context()).__name__ == "SpawnContext"

    elsewhere.run(compare)


# What theirs cannot.


def put_and_go(items: Any, pipe: Any, simple: Any) -> None:
    import numpy as np
    import torch

    items.put({"tensor": torch.full((3,), 1.0), "array": np.full(3, 2.0)})
    pipe.send([torch.full((3,), 3.0)])
    simple.put(torch.full((3,), 4.0))
    os.kill(os.getpid(), signal.SIGKILL)


def receive_from_the_dead(method: str) -> None:
    context = context_of(OURS, method)
    items, simple, (here, there) = context.Queue(), context.SimpleQueue(), context.Pipe()
    other = context.Process(target=put_and_go, args=(items, there, simple))
    other.start()
    other.join()
    assert other.exitcode == -signal.SIGKILL
    item = items.get(timeout=PATIENCE)
    assert item["tensor"].tolist() == [1] * 3
    assert item["array"].tolist() == [2] * 3
    assert here.recv()[0].tolist() == [3] * 3
    tensor = simple.get()
    tensor.add_(1)
    assert tensor.tolist() == [5] * 3


@all_methods
def test_the_sender_may_be_killed_first(elsewhere: Elsewhere, method: str) -> None:
    elsewhere.run(receive_from_the_dead, method)


def pass_on(inbox: Any, outbox: Any) -> None:
    outbox.put(inbox.get())


def chain(method: str) -> None:
    import torch

    context = context_of(OURS, method)
    queues = [context.Queue() for _ in range(4)]
    workers = [context.Process(target=pass_on, args=pair) for pair in pairwise(queues)]
    for worker in workers:
        worker.start()
    tensor = torch.zeros(3)
    queues[0].put(tensor)
    for worker in workers:
        worker.join()
    received = queues[-1].get(timeout=PATIENCE)
    received[0] = 8
    assert tensor[0] == 8


@all_methods
def test_received_tensors_are_sent_on_by_reference(elsewhere: Elsewhere, method: str) -> None:
    elsewhere.run(chain, method)


def collect(items: Any, begin: Any, count: int) -> None:
    begin.wait()
    received = [items.get(timeout=PATIENCE)]
    before = descriptors()  # joined, and connected
    received += [items.get(timeout=PATIENCE) for _ in range(count - 1)]
    assert descriptors() <= before + 2, (before, descriptors())
    assert [int(tensor[0]) for tensor in received[::1000]] == list(range(0, count, 1000))
    received[-1].fill_(-1)


def many_in_flight(count: int) -> None:
    import torch

    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    context = context_of(OURS, "fork")
    items, begin = context.Queue(), context.Event()
    other = context.Process(target=collect, args=(items, begin, count))
    other.start()
    first = torch.zeros(1)
    items.put(first)
    assert int(items.get()[0]) == 0
    before = descriptors()
    sent = [torch.full((2,), float(number)) for number in range(count)]
    for tensor in sent:
        items.put(tensor)
    assert items.qsize() > 0
    assert descriptors() <= before + 2
    assert not torch_files_are_mapped()
    begin.set()
    other.join()
    assert other.exitcode == 0
    assert sent[-1].tolist() == [-1, -1]
    assert all(tensor.is_shared() for tensor in sent[::1000])


@pytest.mark.slow
def test_twenty_thousand_tensors_in_flight_take_no_descriptors(elsewhere: Elsewhere) -> None:
    elsewhere.run(many_in_flight, 20_000)


def test_two_thousand_tensors_in_flight_take_no_descriptors(elsewhere: Elsewhere) -> None:
    elsewhere.run(many_in_flight, 2_000)


def leave_unread() -> None:
    import torch

    mp = importlib.import_module(OURS)
    items, (here, there) = mp.Queue(), mp.Pipe()
    for _ in range(100):
        items.put(torch.zeros(1000))
    del items
    eventually(lambda: used_bytes() == 0)
    mp.set_ttl(0.1)
    there.send(torch.zeros(1000))
    eventually(lambda: used_bytes() == 0)
    with pytest.raises(importlib.import_module("tensorbus").Closed):
        here.recv()


def test_nothing_leaks_when_nobody_receives(elsewhere: Elsewhere) -> None:
    elsewhere.run(leave_unread)


def kill_before_it_looks() -> None:
    import torch

    mp = importlib.import_module(OURS)
    other = mp.get_context("spawn").Process(target=len, args=([torch.zeros(1000)],))
    other.start()
    other.kill()
    other.join()
    eventually(lambda: used_bytes() == 0)


def test_nothing_leaks_when_a_process_dies_before_it_has_its_arguments(
    elsewhere: Elsewhere,
) -> None:
    elsewhere.run(kill_before_it_looks)


def refuse_at_once() -> None:
    import torch

    context = context_of(OURS, "fork")
    items = context.Queue()
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        items.put(torch.ones(2, requires_grad=True) * 2)
    with pytest.raises((AttributeError, TypeError)):
        items.put(lambda: None)
    assert items.empty()


def test_put_itself_says_what_is_wrong(elsewhere: Elsewhere) -> None:
    elsewhere.run(refuse_at_once)


def get_late(items: Any, gone: Any, result: Any) -> None:
    gone.wait()
    result.send(items.get(timeout=PATIENCE)["tensor"] + 1)


def forget_the_queue(method: str) -> None:
    import torch

    context = context_of(OURS, method)
    items, gone, (here, there) = context.Queue(), context.Event(), context.Pipe()
    other = context.Process(target=get_late, args=(items, gone, there))
    other.start()
    items.put({"tensor": torch.ones(2)})
    items.close()
    del items
    gone.set()
    assert here.recv().tolist() == [2, 2]
    other.join()
    eventually(lambda: used_bytes() == 0)


@all_methods
def test_a_queue_lives_as_long_as_the_child_that_has_it(elsewhere: Elsewhere, method: str) -> None:
    elsewhere.run(forget_the_queue, method)


class Rows:
    """A data set."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.full((1000,), float(index)), index


def load_batches(method: str) -> None:
    from torch.utils.data import DataLoader

    context = context_of(OURS, method)
    batches = list(DataLoader(Rows(), 4, num_workers=2, multiprocessing_context=context))
    assert [int(batch[0][0, 0]) for batch in batches] == [0, 4, 8]
    assert all(batch[0].is_shared() for batch in batches)
    assert not torch_files_are_mapped()


@all_methods
def test_a_data_loader_takes_our_context(elsewhere: Elsewhere, method: str) -> None:
    elsewhere.run(load_batches, method)


def as_it_is(item: Any) -> Any:
    return item


def use_the_standard_librarys() -> None:
    import multiprocessing

    import numpy as np
    import torch

    importlib.import_module(OURS)
    context = multiprocessing.get_context("fork")
    with context.Pool(1, maxtasksperchild=1) as pool:
        arrays = pool.map(as_it_is, [np.arange(3)] * 10, chunksize=1)
        assert all(array.tolist() == [0, 1, 2] for array in arrays)
    with context.Pool(1) as pool:  # whose worker lives on: torch's own sender must not exit first
        tensor = torch.zeros(3)
        assert pool.apply(as_it_is, (tensor,)).tolist() == [0, 0, 0]
    assert used_bytes() == 0


def test_importing_it_leaves_the_standard_librarys_pools_alone(elsewhere: Elsewhere) -> None:
    elsewhere.run(use_the_standard_librarys)


def use_inherited(tensor: Any, gone: Any, outbox: Any) -> None:
    gone.wait()
    tensor[1] = 5
    assert tensor.tolist() == [1, 5, 1]
    assert tensor.is_shared()
    outbox.put(tensor)
    tensor[2] = 6  # the very same memory still


def inherit_by_fork() -> None:
    import torch

    context = context_of(OURS, "fork")
    gone, outbox = context.Event(), context.Queue()
    tensor = torch.ones(3).share_memory_()
    place = tensor.data_ptr()
    other = context.Process(target=use_inherited, args=(tensor, gone, outbox))
    other.start()
    del tensor  # the child has no lease of it: it stays for the child all the same
    others = [torch.zeros(3).share_memory_() for _ in range(100)]
    assert place not in {one.data_ptr() for one in others}
    gone.set()
    received = outbox.get(timeout=PATIENCE)
    other.join()
    assert other.exitcode == 0
    assert received.tolist() == [1, 5, 6]


def test_a_forked_child_shares_what_it_has_inherited(elsewhere: Elsewhere) -> None:
    elsewhere.run(inherit_by_fork)


def double(array: Any) -> Any:
    array *= 2
    return array


def share_arrays(method: str) -> None:
    import numpy as np

    context = context_of(OURS, method)
    with context.Pool(1) as pool:
        received = pool.apply(double, (np.arange(1000),))
        assert received.tolist() == list(range(0, 2000, 2))
        again = pool.apply(double, (received,))
        assert again[1] == received[1] == 4  # it lay in shared memory: no copy was made
    assert "torch" not in sys.modules


@all_methods
def test_arrays_go_by_reference_without_torch(elsewhere: Elsewhere, method: str) -> None:
    elsewhere.run(share_arrays, method)


def send_args(tensor: Any, array: Any, outbox: Any) -> None:
    tensor.add_(1)
    outbox.put(float(array.sum()))


def start_by_the_default(method: str) -> None:
    import numpy as np
    import torch

    mp = importlib.import_module(OURS)
    mp.set_start_method(method)
    tensor, outbox = torch.zeros(2).share_memory_(), mp.SimpleQueue()
    other = mp.Process(target=send_args, args=(tensor, np.ones(3), outbox))
    other.start()
    assert outbox.get() == 3
    other.join()
    assert tensor.tolist() == [1, 1]


@pytest.mark.parametrize("method", [*METHODS, "forkserver"])
def test_process_uses_the_start_method_that_is_set(elsewhere: Elsewhere, method: str) -> None:
    elsewhere.run(start_by_the_default, method)


def grow_old(depth: int, outbox: Any) -> None:
    """A child of a child: what it sends outlives both."""
    import torch

    if depth == 0:
        outbox.send(torch.full((2,), 3.0))
        return
    other = context_of(OURS, "fork").Process(target=grow_old, args=(depth - 1, outbox))
    other.start()
    other.join()


def send_from_a_grandchild() -> None:
    context = context_of(OURS, "fork")
    here, there = context.Pipe()
    other = context.Process(target=grow_old, args=(2, there))
    other.start()
    other.join()
    assert here.recv().tolist() == [3, 3]


def test_what_a_grandchild_sent_outlives_it(elsewhere: Elsewhere) -> None:
    elsewhere.run(send_from_a_grandchild)


def test_it_is_there_without_torch_and_numpy(elsewhere: Elsewhere) -> None:
    def send() -> None:
        without_torch_and_numpy()
        context = context_of(OURS, "fork")
        items = context.Queue()
        other = context.Process(target=items.put, args=({"id": 7},))
        other.start()
        assert items.get(timeout=PATIENCE) == {"id": 7}
        other.join()

    elsewhere.run(send)
