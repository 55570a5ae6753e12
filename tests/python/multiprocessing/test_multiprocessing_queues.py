"""Queues of tensorbus.multiprocessing: those of the standard library, with tensors by reference."""

from __future__ import annotations

import importlib
import multiprocessing.queues
import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace
from typing import Any

import pytest

from support.contexts import OURS, all_methods, context_of, quick_methods
from support.harness import PATIENCE, eventually, used_bytes
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")

both = pytest.mark.parametrize("library", ["torch.multiprocessing", OURS])


def be_the_standard_librarys() -> None:
    context = context_of(OURS, "fork")
    plain, joinable, simple = context.Queue(3), context.JoinableQueue(), context.SimpleQueue()
    assert isinstance(plain, multiprocessing.queues.Queue)
    assert isinstance(joinable, multiprocessing.queues.JoinableQueue)
    assert isinstance(simple, multiprocessing.queues.SimpleQueue)
    assert plain._maxsize == 3
    # The names that are replaced in its code.
    assert "_ForkingPickler" in multiprocessing.queues.Queue._feed.__code__.co_names
    assert "Queue" in multiprocessing.queues.Queue._start_thread.__code__.co_names
    module = importlib.import_module(f"{OURS}.queue")
    assert isinstance(plain, module.Queue)
    assert isinstance(simple, module.SimpleQueue)
    assert wait([plain._reader], 0) == []
    plain.put(1)
    assert wait([plain._reader], PATIENCE) == [plain._reader]
    assert (plain.qsize(), plain.empty(), plain.full()) == (1, False, False)
    with pytest.raises(RuntimeError, match="inheritance"):
        ForkingPickler.dumps(plain)
    plain._writer.send({"by": "hand"})
    assert [plain._reader.recv(), plain._reader.recv()] == [1, {"by": "hand"}]


def test_queues_are_the_standard_librarys_with_its_attributes(warm: Warm) -> None:
    warm.run(be_the_standard_librarys)


def pickled_without_a_participant() -> None:
    from tensorbus._base.participant import has_participant

    context = context_of(OURS, "fork")
    items = context.Queue()
    for item in (1, "two", {"three": [3.0, None]}, SimpleNamespace(four=(4,)), ValueError("five")):
        items.put(item)
        assert repr(items.get(timeout=PATIENCE)) == repr(item)
    assert not has_participant()


def test_items_without_tensors_do_not_join_the_bus(warm: Warm) -> None:
    warm.run(pickled_without_a_participant)


def put_mixed(items: Any, count: int) -> None:
    import torch

    for number in range(count):
        items.put(number if number % 2 else torch.full((2,), float(number)))


def keep_the_order(method: str) -> None:
    context = context_of(OURS, method)
    items = context.Queue()
    other = context.Process(target=put_mixed, args=(items, 1000))
    other.start()  # more than the pipe holds
    for number in range(1000):
        item = items.get(timeout=PATIENCE)
        assert (item if number % 2 else item.tolist()) == (number if number % 2 else [number] * 2)
    other.join()
    assert other.exitcode == 0


@quick_methods
def test_items_with_and_without_tensors_stay_in_their_order(warm: Warm, method: str) -> None:
    warm.run(keep_the_order, method)


def put_and_return(items: Any) -> None:
    import torch

    items.put({"tensor": torch.ones(3)})
    items.put("last")


def receive_after_the_end(method: str) -> None:
    context = context_of(OURS, method)
    items = context.JoinableQueue()
    other = context.Process(target=put_and_return, args=(items,))
    other.start()
    other.join()
    assert other.exitcode == 0
    assert items.get(timeout=PATIENCE)["tensor"].tolist() == [1] * 3
    assert items.get(timeout=PATIENCE) == "last"
    items.task_done()
    items.task_done()
    items.join()


@all_methods
def test_what_a_process_put_arrives_after_it_has_ended(warm: Warm, method: str) -> None:
    warm.run(receive_after_the_end, method)


def fork_with_items_in_the_buffer() -> None:
    import torch

    context = context_of(OURS, "fork")
    items = context.Queue()
    waiting = [torch.full((2,), float(number)) for number in range(1000)]
    for tensor in waiting:  # the pipe has no room for all of them
        items.put(tensor)
    other = context.Process(target=items.put, args=("of the child",))
    other.start()
    received = [items.get(timeout=PATIENCE) for _ in range(1001)]
    other.join()
    received.remove("of the child")
    assert [int(tensor[0]) for tensor in received] == list(range(1000))


def test_a_child_that_is_forked_while_items_wait_sends_none_of_them_again(warm: Warm) -> None:
    warm.run(fork_with_items_in_the_buffer)


def put_until_told(items: Any, end: Any) -> None:
    import torch

    def put() -> None:
        while not end.is_set():
            items.put(torch.zeros(2))

    thread = threading.Thread(target=put)
    thread.start()
    for _ in range(10):
        child = context_of(OURS, "fork").Process(target=put_and_return, args=(items,))
        child.start()
        child.join(PATIENCE)
        assert child.exitcode == 0
    end.set()
    thread.join()


def fork_while_the_feeder_sends() -> None:
    context = context_of(OURS, "fork")
    items, end = context.Queue(8), context.Event()
    other = context.Process(target=put_until_told, args=(items, end))
    other.start()
    last = 0
    while last < 10:
        last += isinstance(items.get(timeout=PATIENCE), str)
    while other.is_alive():
        try:
            items.get(timeout=0.1)
        except queue.Empty:
            continue
    assert other.exitcode == 0


def test_children_that_are_forked_while_the_feeder_sends_can_send_too(warm: Warm) -> None:
    warm.run(fork_while_the_feeder_sends)


def tell_the_hook(library: str) -> None:
    import torch

    queues = importlib.import_module(f"{library}.queue")
    context = context_of(library, "fork")
    told = []

    class Watched(queues.Queue):  # type: ignore[misc, name-defined]
        @staticmethod
        def _on_queue_feeder_error(error: Exception, item: Any) -> None:
            told.append((type(error), item))

    items = Watched(1, ctx=context)
    history = torch.ones(2, requires_grad=True) * 2
    items.put(history)
    items.put("next", timeout=PATIENCE)  # there is room again
    assert items.get(timeout=PATIENCE) == "next"
    ((kind, item),) = told
    assert kind is RuntimeError
    assert item is history


@both
def test_what_cannot_be_pickled_is_told_to_the_feeders_hook(warm: Warm, library: str) -> None:
    warm.run(tell_the_hook, library)


def fail_to_send(kind: str) -> None:
    import torch

    class Watched(importlib.import_module(f"{OURS}.queue").Queue):  # type: ignore[misc]
        @staticmethod
        def _on_queue_feeder_error(error: Exception, item: Any) -> None:
            told.put((error, item))

    told: queue.Queue[Any] = queue.Queue()
    items = Watched(ctx=context_of(OURS, "fork"))
    if kind == "unpicklable":
        items.put(("first", torch.zeros(1000)))
        items.put(("second", torch.zeros(1000), threading.Lock()))
        assert told.get(timeout=PATIENCE)[1][0] == "second"
        name, tensor = items.get(timeout=PATIENCE)
        assert name == "first"
        del tensor
        items.put("last")  # the feeder lets go of what it could not send
        assert items.get(timeout=PATIENCE) == "last"
    else:
        items._writer.close()
        items.put(torch.zeros(1000))
        assert isinstance(told.get(timeout=PATIENCE)[0], OSError)
    eventually(lambda: used_bytes() == 0)  # the pipe is still there, and could be read
    del items


@pytest.mark.parametrize("kind", ["without a pipe", "unpicklable"])
def test_what_the_feeder_could_not_send_comes_back(warm: Warm, kind: str) -> None:
    warm.run(fail_to_send, kind)


def drop_unread(kind: str) -> None:
    import torch

    items = getattr(context_of(OURS, "fork"), kind)()
    for _ in range(100):
        items.put(torch.zeros(1000))
    assert wait([items._reader], PATIENCE)
    eventually(lambda: used_bytes() >= 100 * 4000)
    del items
    eventually(lambda: used_bytes() == 0)


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue", "SimpleQueue"])
def test_the_memory_of_tensors_in_a_dropped_queue_comes_back(warm: Warm, kind: str) -> None:
    warm.run(drop_unread, kind)


def drop_what_a_child_put() -> None:
    context = context_of(OURS, "fork")
    items = context.Queue()
    other = context.Process(target=put_mixed, args=(items, 20))
    other.start()
    other.join()
    assert items.qsize() == 20
    del items
    eventually(lambda: used_bytes() == 0)


def test_the_memory_of_what_a_child_put_into_a_dropped_queue_comes_back(warm: Warm) -> None:
    warm.run(drop_what_a_child_put)


def get_late(items: Any, dropped: Any, result: Any) -> None:
    dropped.wait()
    result.send(items.get(timeout=PATIENCE).tolist())


def drop_what_another_reads() -> None:
    import torch

    context = context_of(OURS, "fork")
    items, dropped, (here, there) = context.Queue(), context.Event(), context.Pipe()
    other = context.Process(target=get_late, args=(items, dropped, there))
    other.start()
    items.put(torch.ones(2))
    items.close()
    items.join_thread()
    del items
    dropped.set()
    assert here.recv() == [1, 1]
    other.join()


def test_a_dropped_queue_keeps_what_another_process_can_receive(warm: Warm) -> None:
    warm.run(drop_what_another_reads)


def get_forever(items: Any, ready: Any) -> None:
    ready.set()
    items.get()


def interrupt() -> None:
    context = context_of(OURS, "fork")
    items, ready = context.Queue(), context.Event()
    other = context.Process(target=get_interrupted, args=(items, ready))
    other.start()
    ready.wait()
    os.kill(other.pid, signal.SIGINT)
    other.join(PATIENCE)
    assert other.exitcode == 0
    items.put("still there")
    assert items.get(timeout=PATIENCE) == "still there"


def get_interrupted(items: Any, ready: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        get_forever(items, ready)


def test_an_interrupted_get_leaves_the_queue_as_it_was(warm: Warm) -> None:
    warm.run(interrupt)


class Streams(threading.local):
    """The current stream of each thread."""

    current = "default"

    @contextmanager
    def use(self, name: str) -> Iterator[None]:
        before, self.current = self.current, name
        yield
        self.current = before


def put_on_a_stream() -> None:
    import torch

    streams, seen = Streams(), []

    class Item:
        def __reduce__(self) -> Any:
            seen.append(streams.current)
            return str, ("item",)

    torch.cuda.is_initialized = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.current_stream = lambda device=None: streams.current
    torch.cuda.default_stream = lambda device=None: "default"
    torch.cuda.stream = streams.use  # type: ignore[assignment]
    items = context_of(OURS, "fork").Queue()
    with streams.use("other"):
        items.put(Item())
    items.put(Item())
    assert [items.get(timeout=PATIENCE) for _ in range(2)] == ["item", "item"]
    assert seen == ["other", "default"]


def test_the_feeder_pickles_on_the_cuda_stream_of_the_put(warm: Warm) -> None:
    warm.run(put_on_a_stream)


def small_arrays_by_value() -> None:
    import numpy as np

    from tensorbus._base.participant import has_participant

    items = context_of(OURS, "fork").Queue()
    items.put({"small": np.arange(128)})
    assert items.get(timeout=PATIENCE)["small"].tolist() == list(range(128))
    assert not has_participant()
    items.put(np.arange(100_000.0))
    assert items.get(timeout=PATIENCE)[-1] == 99_999
    assert has_participant()


def test_small_arrays_go_in_the_pickle_and_large_ones_by_reference(warm: Warm) -> None:
    warm.run(small_arrays_by_value)
