"""What is on its way between processes: whose it is when it arrives, and how long it waits."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.contexts import OURS, context_of, quick_methods
from support.harness import PATIENCE, eventually, used_bytes
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")

SMALL = 4
LARGE = 100_000  # float64: goes by reference


# An array is its receiver's own.


def zeros(count: int) -> Any:
    import numpy as np

    return np.zeros(count)


def count_up(state: Any) -> float:
    for _ in range(10):
        state += 1
    return float(state[-1])


def relay(inbox: Any, outbox: Any) -> None:
    frame = inbox.recv()
    for _ in range(3):
        frame += 1
        outbox.send(frame)
    inbox.recv()


def rely_on_the_copy(method: str, count: int) -> None:
    context = context_of(OURS, method)
    with context.Pool(2) as pool:
        state = pool.apply(zeros, (count,))
        assert state.flags.writeable
        assert pool.map(count_up, [state] * 6, 1) == [10] * 6
        assert not state.any()
        state += 1  # and what its holder has written is what goes on
        assert pool.map(count_up, [state] * 3, 1) == [11] * 3
    (here, there), (into, out) = context.Pipe(), context.Pipe()
    other = context.Process(target=relay, args=(there, out))
    other.start()
    here.send(zeros(count))
    frames = [into.recv() for _ in range(3)]
    assert [float(frame[0]) for frame in frames] == [1, 2, 3]
    here.send(None)
    other.join()


@pytest.mark.parametrize("count", [SMALL, LARGE])
@quick_methods
def test_a_received_array_is_the_receivers_own(warm: Warm, method: str, count: int) -> None:
    warm.run(rely_on_the_copy, method, count)


def send_twice_and_wait(count: int, outbox: Any, done: Any) -> None:
    array = zeros(count)
    outbox.send(array)
    again = outbox.recv()  # what was sent, as it came back
    for _ in range(3):
        outbox.send(again)
    outbox.send((array, array[1:], array))
    done.wait()


def receive_one_memory_often() -> None:
    import numpy as np
    import torch

    context = context_of(OURS, "fork")
    (here, there), done = context.Pipe(), context.Event()
    other = context.Process(target=send_twice_and_wait, args=(LARGE, there, done))
    other.start()
    before = used_bytes()
    here.send(here.recv())
    first, second, third = (here.recv() for _ in range(3))  # all three, and only then a write
    assert used_bytes() < before + LARGE  # by reference
    first += 1
    second += 2
    assert [x[0] for x in (first, second, third)] == [1, 2, 0]
    whole, part, same = here.recv()
    assert same is whole  # as a pickle has it
    whole[:] = 5
    assert not part.any()
    tensor = torch.from_numpy(third)
    tensor += 7
    assert third[0] == 7
    here.send(third)  # nobody reads it: what follows is of this process
    ours, theirs = context.Pipe()
    ours.send({"array": third, "tensor": tensor})
    third[0] = 9
    found = theirs.recv()
    assert found["array"][0] == 7
    assert found["tensor"][0] == 7
    shared = torch.zeros(LARGE)
    ours.send(shared)  # it moves, and then its array is of its new memory
    ours.send((shared, shared.numpy()))
    assert theirs.recv()[0] == 0
    received, array = theirs.recv()
    received += 1
    assert (shared[0], array[0]) == (1, 0)
    assert isinstance(array, np.ndarray)
    assert array.flags.writeable
    done.set()
    other.join()


def test_writes_to_arrays_over_one_memory_do_not_meet(warm: Warm) -> None:
    warm.run(receive_one_memory_often)


# No limit on what waits.


def slow_sum(tensor: Any) -> float:
    time.sleep(0.05)
    return float(tensor.sum())


def wait_longer_than_the_ttl() -> None:
    import torch

    mp = importlib.import_module(OURS)
    with pytest.warns(DeprecationWarning, match="without a time limit"):
        mp.set_ttl(0.01)
    with pytest.warns(DeprecationWarning, match="without a time limit"):
        assert mp.get_ttl() == 0.01
    with context_of(OURS, "fork").Pool(1) as pool:
        tasks = [torch.full((4,), float(i)) for i in range(5)]
        assert pool.map(slow_sum, tasks, 1) == [4.0 * i for i in range(5)]


def test_tasks_wait_for_as_long_as_it_takes(warm: Warm) -> None:
    warm.run(wait_longer_than_the_ttl)


class Refused:
    def __reduce__(self) -> Any:
        return refuse, ()


def refuse() -> None:
    raise ValueError("not here")


class Exits:
    def __reduce__(self) -> Any:
        return sys.exit, (3,)


def refuse_in_a_worker(item: Any) -> Any:
    return item


def answer_for_what_cannot_be_read(method: str) -> None:
    with context_of(OURS, method).Pool(1) as pool:
        with pytest.raises(ValueError, match="not here"):
            pool.apply_async(refuse_in_a_worker, (Refused(),)).get(PATIENCE)
        with pytest.raises(ValueError, match="not here"):
            pool.apply_async(Refused).get(PATIENCE)  # the result, here
        with pytest.raises(Exception, match=r"cannot be unpickled: SystemExit\(3\)"):
            pool.apply_async(refuse_in_a_worker, (Exits(),)).get(PATIENCE)
        with pytest.raises(SystemExit):
            pool.apply_async(Exits).get(PATIENCE)
        assert pool.apply_async(abs, (-3,)).get(PATIENCE) == 3


@quick_methods
def test_a_pool_answers_for_what_cannot_be_unpickled(warm: Warm, method: str) -> None:
    warm.run(answer_for_what_cannot_be_read, method)


def first_of(array: Any) -> float:
    time.sleep(0.02)
    return float(array[0])


def count_what_is_made_ahead() -> None:
    made = 0

    def arrays() -> Iterator[Any]:
        nonlocal made
        for number in range(20):
            made += 1
            yield zeros(LARGE) + number

    ahead = 0
    with context_of(OURS, "fork").Pool(1) as pool:
        for number, first in enumerate(pool.imap(first_of, arrays())):
            assert first == number
            ahead = max(ahead, made - number - 1)
    assert ahead <= 5, ahead


def test_imap_makes_no_more_arrays_than_its_workers_take(warm: Warm) -> None:
    warm.run(count_what_is_made_ahead)


def wait_for_ever(tensor: Any) -> None:
    threading.Event().wait()


def terminate_with_work_left() -> None:
    import torch

    pool = context_of(OURS, "fork").Pool(2)
    tensors = [torch.zeros(LARGE) for _ in range(8)]
    pool.map_async(wait_for_ever, tensors, 1)
    pool.map_async(wait_for_ever, [zeros(LARGE)] * 8, 1)
    del tensors
    eventually(lambda: used_bytes() >= 8 * 4 * LARGE)
    pool.terminate()
    pool.join()
    del pool
    eventually(lambda: used_bytes() == 0)


def test_a_terminated_pool_leaves_nothing(warm: Warm) -> None:
    warm.run(terminate_with_work_left)


def send_and_go(there: Any) -> None:
    import torch

    there.send(torch.zeros(1000))
    there.send(zeros(LARGE))
    os.kill(os.getpid(), signal.SIGKILL)


def close_with_something_in_it(duplex: bool) -> None:
    import torch

    context = context_of(OURS, "fork")
    here, there = context.Pipe(duplex)
    other = context.Process(target=send_and_go, args=(there,))
    other.start()
    other.join()
    there.send(torch.zeros(1000))
    assert used_bytes() > 0
    assert here.recv().sum() == 0  # of a process that is dead
    assert here.recv().sum() == 0
    there.close()
    here.close()
    eventually(lambda: used_bytes() == 0)


@pytest.mark.parametrize("duplex", [True, False])
def test_what_a_closed_pipe_had_in_it_comes_back(warm: Warm, duplex: bool) -> None:
    warm.run(close_with_something_in_it, duplex)


def share_what_was_inherited(tensor: Any, there: Any) -> None:
    there.send(tensor[1:])
    there.recv()


def send_on_what_a_fork_left() -> None:
    import torch

    context = context_of(OURS, "fork")
    tensor, (here, there) = torch.zeros(8), context.Pipe()
    here.send(tensor)
    assert there.recv().is_shared()
    other = context.Process(target=share_what_was_inherited, args=(tensor, there))
    other.start()
    received = here.recv()
    received.fill_(3)
    assert tensor.tolist() == [0] + [3] * 7
    here.send(None)
    other.join()


def test_a_forked_child_shares_what_its_parent_had_moved(warm: Warm) -> None:
    warm.run(send_on_what_a_fork_left)


def fork_while_another_thread_is_about_to() -> None:
    import torch

    from tensorbus import _core

    context = context_of(OURS, "fork")
    tensor, (here, there) = torch.zeros(8), context.Pipe()
    here.send(tensor)
    assert there.recv().is_shared()
    forks, shares, forked = (threading.Event() for _ in range(3))
    fork, share, main = os.fork, _core.share, threading.main_thread()

    def fork_when_the_other_shares() -> int:
        if threading.current_thread() is main:
            forks.set()
            assert shares.wait(PATIENCE)
        return fork()

    def share_when_the_other_has_forked(*arguments: Any) -> Any:
        if threading.current_thread() is not main:
            shares.set()
            assert forked.wait(PATIENCE)
        return share(*arguments)

    os.fork, _core.share = fork_when_the_other_shares, share_when_the_other_has_forked
    child, other = (
        context.Process(target=share_what_was_inherited, args=(tensor, there)),
        context.Process(target=SMALL.bit_length),
    )
    thread = threading.Thread(target=lambda: forks.wait(PATIENCE) and other.start())
    thread.start()
    child.start()
    forked.set()
    received = here.recv()
    received.fill_(3)
    assert tensor.tolist() == [0] + [3] * 7
    here.send(None)
    thread.join()
    for process in (child, other):
        process.join()
        assert process.exitcode == 0


def test_two_threads_fork_at_once(warm: Warm) -> None:
    warm.run(fork_while_another_thread_is_about_to)


def start_without_success() -> None:
    from multiprocessing import resource_tracker, util

    context = context_of(OURS, "spawn")
    resource_tracker.ensure_running()

    def fail(*_: object) -> int:
        raise BlockingIOError

    util.spawnv_passfds = fail  # type: ignore[attr-defined]
    with pytest.raises(BlockingIOError):
        context.Process(target=len, args=(zeros(LARGE),)).start()
    eventually(lambda: used_bytes() == 0)


def test_what_a_process_was_to_have_that_does_not_start_is_freed(warm: Warm) -> None:
    warm.run(start_without_success)


# A default time-out of sockets is the program's.


def send_late(there: Any) -> None:
    import torch

    time.sleep(0.3)
    there.send(torch.ones(3))


def live_with_a_default_timeout() -> None:
    context = context_of(OURS, "fork")
    socket.setdefaulttimeout(0.05)
    here, there = context.Pipe()
    other = context.Process(target=send_late, args=(there,))
    other.start()
    tensor = here.recv()
    other.join()
    assert tensor.tolist() == [1] * 3
    with context.Manager() as manager:
        shared = manager.dict()
        shared["tensor"] = tensor
        assert shared["tensor"].tolist() == [1] * 3


def test_a_default_timeout_of_sockets_ends_no_pipe(warm: Warm) -> None:
    warm.run(live_with_a_default_timeout)


def talk_over_tcp_with_a_default_timeout() -> None:
    connection = importlib.import_module(OURS).connection
    socket.setdefaulttimeout(5)
    with connection.Listener(("127.0.0.1", 0), authkey=b"key") as listener:
        calling = threading.Thread(
            target=lambda: ends.append(connection.Client(listener.address, authkey=b"key"))
        )
        ends: list[Any] = []
        calling.start()
        ends.append(listener.accept())
        calling.join()
    for end in ends:
        assert os.get_blocking(end.fileno())
    ends[0].send_bytes(b"x")
    assert ends[1].recv_bytes() == b"x"


def test_a_default_timeout_of_sockets_ends_no_connection_over_tcp(warm: Warm) -> None:
    warm.run(talk_over_tcp_with_a_default_timeout)


def leave_calls_in_a_broken_executor() -> None:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    executor = ProcessPoolExecutor(1, mp_context=context_of(OURS, "fork"))
    calls = [executor.submit(wait_for_ever, zeros(LARGE)) for _ in range(4)]
    eventually(lambda: used_bytes() >= 2 * 8 * LARGE)
    for process in executor._processes.values():
        process.kill()
    for call in calls:
        with pytest.raises(BrokenProcessPool):
            call.result(PATIENCE)
    executor.shutdown()
    eventually(lambda: used_bytes() == 0)


def test_the_calls_of_a_broken_executor_leave_nothing(warm: Warm) -> None:
    warm.run(leave_calls_in_a_broken_executor)
