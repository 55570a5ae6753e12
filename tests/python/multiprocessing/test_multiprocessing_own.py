"""tensorbus.multiprocessing: what torch.multiprocessing cannot."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.contexts import METHODS, OURS, all_methods, context_of, quick_methods
from support.harness import PATIENCE, SANITIZED, Elsewhere, eventually, used_bytes
from support.missing import without_torch_and_numpy
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def torch_files_are_mapped() -> bool:
    return "/dev/shm/torch_" in Path("/proc/self/maps").read_text()


def put_and_go(items: Any, pipe: Any, simple: Any) -> None:
    import numpy as np
    import torch

    items.put({"tensor": torch.full((3,), 1.0), "array": np.full(3, 2.0)})
    pipe.send([torch.full((3,), 3.0)])
    simple.put(torch.full((3,), 4.0))
    items.close()
    items.join_thread()  # its feeder has sent all
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
def test_the_sender_may_be_killed_first(warm: Warm, method: str) -> None:
    warm.run(receive_from_the_dead, method)


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


@quick_methods
def test_received_tensors_are_sent_on_by_reference(warm: Warm, method: str) -> None:
    warm.run(chain, method)


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
def test_tensors_in_flight_take_no_descriptors(warm: Warm) -> None:
    warm.run(many_in_flight, 2_000 if SANITIZED else 20_000)


def test_two_thousand_tensors_in_flight_take_no_descriptors(warm: Warm) -> None:
    warm.run(many_in_flight, 2_000)


def leave_unread() -> None:
    import torch

    mp = importlib.import_module(OURS)
    items, (here, there) = mp.Queue(), mp.Pipe()
    for _ in range(100):
        items.put(torch.zeros(1000))
    del items
    eventually(lambda: used_bytes() == 0)
    there.send(torch.zeros(1000))
    assert used_bytes() > 0
    del here, there
    eventually(lambda: used_bytes() == 0)


def test_nothing_leaks_when_nobody_receives(warm: Warm) -> None:
    warm.run(leave_unread)


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


def get_late(items: Any, gone: Any, result: Any) -> None:
    result.send("it has the queue")
    gone.wait()
    result.send(items.get(timeout=PATIENCE)["tensor"] + 1)


def forget_the_queue(method: str) -> None:
    import torch

    context = context_of(OURS, method)
    items, gone, (here, there) = context.Queue(), context.Event(), context.Pipe()
    other = context.Process(target=get_late, args=(items, gone, there))
    other.start()
    items.put({"tensor": torch.ones(2)})
    assert here.recv() == "it has the queue"
    items.close()
    del items
    gone.set()
    assert here.recv().tolist() == [2, 2]
    other.join()
    eventually(lambda: used_bytes() == 0)


@all_methods
def test_a_queue_lives_as_long_as_the_child_that_has_it(warm: Warm, method: str) -> None:
    warm.run(forget_the_queue, method)


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


@quick_methods
def test_a_data_loader_takes_our_context(warm: Warm, method: str) -> None:
    warm.run(load_batches, method)


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


def inherit_by_fork(how: str) -> None:
    import torch

    context = context_of(OURS, "fork")
    gone, outbox = context.Event(), context.Queue()

    def shared(tensor: Any) -> Any:
        if how == "share_memory_":
            return tensor.share_memory_()
        outbox.put(tensor)  # moves it
        outbox.get()
        return tensor

    tensor = shared(torch.ones(3))
    other = context.Process(target=use_inherited, args=(tensor, gone, outbox))
    other.start()
    del tensor  # the child has no lease of it: it stays for the child all the same
    others = [shared(torch.zeros(3)) for _ in range(100)]
    gone.set()
    received = outbox.get(timeout=PATIENCE)
    other.join()
    assert other.exitcode == 0
    assert received.tolist() == [1, 5, 6]
    assert not any(one.any() for one in others)


@pytest.mark.parametrize("how", ["share_memory_", "put"])
def test_a_forked_child_shares_what_it_has_inherited(warm: Warm, how: str) -> None:
    warm.run(inherit_by_fork, how)


LARGE = 100_000  # numbers: the array goes by reference


def double(array: Any) -> Any:
    array *= 2
    return array


def share_arrays(method: str) -> None:
    import numpy as np

    context = context_of(OURS, method)
    with context.Pool(1) as pool:
        received = pool.apply(double, (np.arange(LARGE),))
        assert np.array_equal(received, np.arange(0, 2 * LARGE, 2))
        before = used_bytes()
        again = pool.apply(double, (received,))
        assert (received[1], again[1]) == (2, 4)  # each has its own
        assert used_bytes() < before + 8 * LARGE  # it lay in shared memory: no copy was made
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
def test_process_uses_the_start_method_that_is_set(warm: Warm, method: str) -> None:
    warm.run(start_by_the_default, method)


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


def test_what_a_grandchild_sent_outlives_it(warm: Warm) -> None:
    warm.run(send_from_a_grandchild)


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


def change_the_domain(items: Any, domain: str) -> None:
    import torch

    import tensorbus as tb

    os.environ["TENSORBUS_DOMAIN"] = domain  # as os.setuid() changes the default one
    with pytest.raises(tb.AccessDenied, match=r"os\.setuid"):
        items.get()
    with pytest.raises(tb.AccessDenied, match=r"os\.setuid"):
        items.put(torch.ones(3))
    items.put("bytes")


def start_one_of_another_domain(domain: str) -> None:
    import torch

    context = context_of(OURS, "fork")
    there = context.SimpleQueue()
    other = context.Process(target=change_the_domain, args=(there, domain))
    there.put(torch.ones(3))
    other.start()
    other.join()
    assert other.exitcode == 0
    assert there.get() == "bytes"


def test_a_child_that_changes_its_domain_is_told_so(warm: Warm, tmp_path: Path) -> None:
    warm.run(start_one_of_another_domain, str(tmp_path / "other"))
