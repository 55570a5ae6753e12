"""What carries tensors by reference beside queues and pipes: executors, managers, arguments."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.contexts import OURS, all_methods, context_of
from support.harness import PATIENCE, Elsewhere
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")


def as_it_is(item: Any) -> Any:
    return item


def two_sums(item: Any) -> Any:
    return item[0].sum() + item[1].sum()


def call_by_executor(method: str) -> None:
    import torch

    tensor = torch.zeros(3)
    with ProcessPoolExecutor(1, mp_context=context_of(OURS, method)) as executor:
        assert executor.submit(two_sums, (tensor, tensor[1:])).result() == 0
        assert tensor.is_shared()  # it went by reference
        future = executor.submit(as_it_is, (i for i in ()))
        with pytest.raises(TypeError, match="pickle"):
            future.result(PATIENCE)
        received = executor.submit(as_it_is, tensor).result()
        received.add_(1)
        assert tensor.tolist() == [1, 1, 1]


@all_methods
def test_executors_call_by_reference(warm: Warm, method: str) -> None:
    warm.run(call_by_executor, method)


def nested(manager_dict: Any) -> None:
    manager_dict["again"] = manager_dict["tensor"]


def manage(method: str) -> None:
    import torch

    context = context_of(OURS, method)
    with context.Manager() as manager:
        shared = manager.dict()
        tensor = torch.zeros(3)
        shared["tensor"] = tensor
        other = context.Process(target=nested, args=(shared,))
        other.start()
        other.join()
        assert other.exitcode == 0
        shared["again"].add_(1)
        assert tensor.tolist() == [1, 1, 1]
        assert "/dev/shm/torch_" not in Path("/proc/self/maps").read_text()


@all_methods
def test_our_managers_keep_tensors_by_reference(warm: Warm, method: str) -> None:
    warm.run(manage, method)


def get_proxy(shared: Any, outbox: Any) -> None:
    outbox.put(shared["x"])


def proxy_in_a_process_of_others() -> None:
    with context_of(OURS, "spawn").Manager() as manager:
        shared = manager.dict()
        shared["x"] = 7
        theirs = multiprocessing.get_context("spawn")
        outbox = theirs.SimpleQueue()
        other = theirs.Process(target=get_proxy, args=(shared, outbox))
        other.start()
        assert outbox.get() == 7
        other.join()


def test_proxies_of_our_managers_work_in_processes_of_others(elsewhere: Elsewhere) -> None:
    elsewhere.run(proxy_in_a_process_of_others)


class Cycle:
    """An argument that knows its process."""

    process: Any = None


def look_at(cycle: Any, outbox: Any) -> None:
    outbox.put(cycle.process._name)


def start_with_a_cycle() -> None:
    context = context_of(OURS, "spawn")
    cycle, outbox = Cycle(), context.SimpleQueue()
    other = context.Process(target=look_at, args=(cycle, outbox), name="itself")
    cycle.process = other
    other.start()
    assert outbox.get() == "itself"
    other.join()


def test_a_process_may_be_in_its_own_arguments(warm: Warm) -> None:
    warm.run(start_with_a_cycle)


def add_both(whole: Any, part: Any, outbox: Any) -> None:
    part.add_(1)
    outbox.put(whole.tolist())
    assert whole.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()


def start_with_views() -> None:
    import torch

    context = context_of(OURS, "spawn")
    whole, outbox = torch.zeros(4), context.SimpleQueue()
    other = context.Process(target=add_both, args=(whole, whole[1:3], outbox))
    other.start()
    assert outbox.get() == [0, 1, 1, 0]
    other.join()
    assert other.exitcode == 0
    assert whole.tolist() == [0, 1, 1, 0]


def test_views_among_the_arguments_of_a_process_are_of_one_storage(warm: Warm) -> None:
    warm.run(start_with_views)
