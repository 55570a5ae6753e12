"""tensorbus.multiprocessing: what torch.multiprocessing promises, over both of them."""

from __future__ import annotations

import importlib
import logging
import os
import queue
import signal
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from support.contexts import OURS, all_methods, context_of, quick_methods
from support.harness import PATIENCE, Elsewhere
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")

# The programs run in processes of their own: torch.multiprocessing and ours both change how all of
# a process pickles.
both = pytest.mark.parametrize("library", ["torch.multiprocessing", OURS])


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
@pytest.mark.usefixtures("all_views_move")
def test_tensors_are_shared_by_queues(warm: Warm, library: str, method: str) -> None:
    warm.run(share_by_queue, library, method)


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
def test_tensors_are_shared_by_pipes(warm: Warm, library: str, method: str) -> None:
    warm.run(share_by_pipe, library, method)


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
@quick_methods
def test_tensors_are_shared_by_pools(warm: Warm, library: str, method: str) -> None:
    warm.run(share_by_pools, library, method)


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
def test_tensors_are_shared_by_managers(warm: Warm, library: str) -> None:
    warm.run(share_by_manager, library)


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
    mp, context = importlib.import_module(library), context_of(library, method)
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
@quick_methods
def test_several_processes_run_one_function(warm: Warm, library: str, method: str) -> None:
    warm.run(start_several, library, method)


def spawn_several(library: str) -> None:
    import torch

    mp = importlib.import_module(library)
    tensor = torch.zeros(2).share_memory_()
    mp.spawn(fill, (tensor,), 2)
    assert tensor.tolist() == [1, 2]


@both
def test_spawned_processes_run_one_function(warm: Warm, library: str) -> None:
    warm.run(spawn_several, library)


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
@quick_methods
def test_processes_train_one_model(warm: Warm, library: str, method: str) -> None:
    warm.run(train_together, library, method)


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
def test_queues_are_full_empty_joined_and_closed(warm: Warm, library: str) -> None:
    warm.run(queue_up, library)


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


def send_unusual_tensors(library: str) -> None:
    import torch

    warnings.simplefilter("ignore")  # PyTorch's, of quantized and sparse tensors
    here, there = context_of(library, "fork").Pipe()
    quantized = torch._make_per_tensor_quantized_tensor(torch.zeros(3, dtype=torch.uint8), 0.5, 1)
    leaf = torch.ones(3, requires_grad=True)
    sent = [
        torch.eye(3).to_sparse(),
        torch.eye(3).to_sparse_csr(),
        torch.nn.Parameter(torch.ones(3)),
        leaf,
        torch.empty(3, device="meta"),
        quantized,
    ]
    for tensor in sent:
        here.send(tensor)
        received = there.recv()
        for kind in ("layout", "requires_grad", "is_leaf", "device", "dtype", "shape"):
            assert getattr(received, kind) == getattr(tensor, kind), kind
        assert type(received) is type(tensor)
    for refused in (leaf * 2, (leaf * 2)[1:], (leaf * 2).to_sparse()):
        with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
            here.send(refused)
    with pytest.raises(NotImplementedError, match="OpaqueTensorImpl"):
        here.send(torch.ones(3).to_mkldnn())
    assert not there.poll()


@both
def test_unusual_tensors_pass_or_are_refused_as_by_pytorch(warm: Warm, library: str) -> None:
    warm.run(send_unusual_tensors, library)
