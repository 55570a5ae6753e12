"""Children exchange messages and end while their parent is stopped."""

from __future__ import annotations

import os
import select
import signal
from typing import Any

import pytest

from support.contexts import OURS, context_of, quick_methods
from support.harness import PATIENCE, eventually, used_bytes
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")

LARGE = 100_000  # float64: goes by reference


def ping(there: Any, stopped: Any, report: Any) -> None:
    import numpy as np
    import torch

    stopped.wait()
    for number in range(50):
        there.send((torch.full((8,), float(number)), np.zeros(LARGE)))
        assert there.recv()[0] == number + 1
    report.send("done")
    there.recv()


def pong(here: Any) -> None:
    for _ in range(50):
        tensor, array = here.recv()
        assert not array.any()
        here.send(tensor.add_(1))
    here.recv()


def stop_the_parent(parent: int, stopped: Any, report: Any) -> None:
    os.kill(parent, signal.SIGSTOP)
    stopped.set()
    heard = report.poll(PATIENCE)
    os.kill(parent, signal.SIGCONT)
    assert heard


def exchange_while_the_parent_is_stopped() -> None:
    context = context_of(OURS, "fork")
    (here, there), (hears, reports), stopped = context.Pipe(), context.Pipe(False), context.Event()
    children = [
        context.Process(target=ping, args=(there, stopped, reports)),
        context.Process(target=pong, args=(here,)),
    ]
    for child in children:
        child.start()
    watcher = context.Process(target=stop_the_parent, args=(os.getpid(), stopped, hears))
    watcher.start()
    watcher.join()
    assert watcher.exitcode == 0
    here.send(None)
    there.send(None)
    for child in children:
        child.join()
        assert child.exitcode == 0
    eventually(lambda: used_bytes() == 0)


def test_children_exchange_tensors_while_their_parent_is_stopped(warm: Warm) -> None:
    warm.run(exchange_while_the_parent_is_stopped)


def send_to_a_sibling(pipe: Any, stopped: Any, received: Any) -> None:
    import numpy as np

    stopped.wait()
    for number in range(600):
        pipe.put(np.zeros(LARGE // 10) + number)
    received.wait()  # what a stopped parent could not be told yet goes with this process


def receive_from_a_sibling(pipe: Any, received: Any, report: Any) -> None:
    for number in range(600):
        assert (pipe.get() == number).all()
    received.set()
    report.send("all")


def exchange_much_while_the_parent_is_stopped() -> None:
    context = context_of(OURS, "fork")
    pipe, (hears, reports) = context.SimpleQueue(), context.Pipe(False)
    stopped, received = context.Event(), context.Event()
    children = [
        context.Process(target=send_to_a_sibling, args=(pipe, stopped, received)),
        context.Process(target=receive_from_a_sibling, args=(pipe, received, reports)),
        context.Process(target=stop_the_parent, args=(os.getpid(), stopped, hears)),
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0


def test_many_messages_that_a_stopped_parent_is_to_keep_wait_in_the_child(warm: Warm) -> None:
    warm.run(exchange_much_while_the_parent_is_stopped)


COUNT = 200  # messages fit into a pipe; of four pipes they do not into the socket of a keeper


def put_and_end(queues: Any, stopped: Any, sent: Any, cancels: bool) -> None:
    import torch

    stopped.wait()
    for number in range(COUNT):
        for queue in queues:
            queue.put(torch.full((2,), float(number)))
    if cancels:
        for queue in queues:
            queue.cancel_join_thread()
    sent.set()


def ends_within(process: int, seconds: float) -> bool:
    descriptor = os.pidfd_open(process)
    return bool(select.select([descriptor], [], [], seconds)[0])


def stop_until_it_ends(parent: int, sender: int, stopped: Any, sent: Any, ends: bool) -> None:
    os.kill(parent, signal.SIGSTOP)
    try:
        stopped.set()
        sent.wait()
        assert ends_within(sender, PATIENCE if ends else 0.5) == ends
    finally:
        os.kill(parent, signal.SIGCONT)


def end_while_the_parent_is_stopped(method: str, cancels: bool) -> None:
    context = context_of(OURS, method)
    queues = [context.Queue() for _ in range(4)]
    stopped, sent = context.Event(), context.Event()
    sender = context.Process(target=put_and_end, args=(queues, stopped, sent, cancels))
    sender.start()
    arguments = (os.getpid(), sender.pid, stopped, sent, cancels)
    watcher = context.Process(target=stop_until_it_ends, args=arguments)
    watcher.start()
    watcher.join()
    assert watcher.exitcode == 0
    if not cancels:
        for number in range(COUNT):
            for queue in queues:
                assert queue.get(timeout=PATIENCE).tolist() == [number] * 2
    sender.join()
    assert sender.exitcode == 0


@quick_methods
def test_a_child_ends_when_its_stopped_parent_has_what_it_sent(warm: Warm, method: str) -> None:
    warm.run(end_while_the_parent_is_stopped, method, False)


def test_cancel_join_thread_ends_the_wait_for_a_stopped_parent(warm: Warm) -> None:
    warm.run(end_while_the_parent_is_stopped, "fork", True)
