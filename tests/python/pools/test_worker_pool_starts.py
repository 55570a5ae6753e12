"""Workers that die while they start, cannot be started, or load what is not wanted any more."""

from __future__ import annotations

import concurrent.futures
import errno
import logging
import multiprocessing
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell, unused
from support.queues.pools import METHODS, QUICK, Gate, double, wait_for


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorbus._pools import place

    monkeypatch.setattr(place, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(place, "_LONGEST_PAUSE", 0.01)


def second(_: object, item: Any) -> Any:
    return item


def living(pids: list[int]) -> list[int]:
    return [each for each in pids if Path(f"/proc/{each}").exists()]


# Deaths.


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_worker_that_is_killed_while_it_loads_is_started_again(method: str) -> None:
    load = partial(wait_for, gate := Gate())
    with gate, tb.WorkerPool(second, workers=2, initializer=load, context=method) as pool:
        futures = [pool.submit(number) for number in range(2)]
        first, other = gate.who(), gate.who()
        os.kill(first, signal.SIGKILL)
        assert gate.who() not in (first, other)
        for _ in range(2):
            gate.let_one_through()
        assert [future.result(PATIENCE) for future in futures] == [0, 1]
    unused()


def count_and_leave(started: tb.Queue[int], code: int) -> None:
    started.put(os.getpid())
    os._exit(code)


def test_the_pool_ends_when_its_workers_die_six_times_in_a_row(short_pauses: None) -> None:
    with tb.Queue() as started:
        pool = tb.WorkerPool(
            second, workers=2, initializer=partial(count_and_leave, started, 5), **QUICK
        )
        error = pool.submit(1).exception(PATIENCE)
        assert isinstance(error, tb.WorkerDied)
        assert "died with exit code 5 while it started, like the 5 before it" in str(error)
        with pytest.raises(tb.WorkerDied):
            pool.submit(1)
        assert started.qsize() == 12
        pool.close()


def leave_unless_good(device: str) -> str:
    if device == "bad":
        os._exit(5)
    return device


def test_a_place_that_stays_empty_leaves_the_others_at_work(
    short_pauses: None, caplog: pytest.LogCaptureFixture
) -> None:
    devices = ["bad", "good"]
    with tb.WorkerPool(second, devices=devices, initializer=leave_unless_good, **QUICK) as pool:
        eventually(lambda: "no worker replaces it" in caplog.text)
        assert pool.map(range(10)) == list(range(10))
    assert caplog.text.count("another worker is started in its place") == 5


def die_at_first(folder: str) -> None:
    """Dies five times, then loads; and dies again, in those that come after."""
    tries = len(os.listdir(folder))
    Path(folder, str(tries)).touch()
    if tries % 6 < 5:
        os.kill(os.getpid(), signal.SIGKILL)


def own_process(_: object, item: object) -> int:
    return os.getpid()


def test_deaths_are_counted_anew_after_a_worker_was_ready(
    short_pauses: None, tmp_path: Path
) -> None:
    load = partial(die_at_first, str(tmp_path))
    with tb.WorkerPool(own_process, workers=1, initializer=load, **QUICK) as pool:
        for tries in (6, 12):
            [worker] = pool.map([0])
            assert len(os.listdir(tmp_path)) == tries
            os.kill(worker, signal.SIGKILL)
            eventually(partial(lambda pid: not living([pid]), worker))


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt, concurrent.futures.CancelledError])
def test_any_exception_of_an_initializer_ends_the_pool(end: type[BaseException]) -> None:
    load = partial(wait_and_raise, gate := Gate(), end)
    with gate, tb.WorkerPool(second, workers=1, initializer=load, **QUICK) as pool:
        future = pool.submit(1)
        gate.let_one_through()
        assert isinstance(future.exception(PATIENCE), end)
        with pytest.raises(end):
            pool.submit(1)


def test_the_initializers_exception_is_the_result_also_after_the_end_of_the_block() -> None:
    load = partial(wait_and_raise, gate := Gate())
    with gate:
        pool = tb.WorkerPool(second, workers=1, initializer=load, **QUICK)
        future = pool.submit(1)
        pool.shutdown(wait=False)
        gate.let_one_through()
        with pytest.raises(LookupError, match="no model"):
            future.result(PATIENCE)
        pool.close()


def wait_and_raise(gate: Gate, what: type[BaseException] = LookupError) -> None:
    gate.wait()
    raise what("no model")


# Ends while workers load.


@pytest.mark.parametrize("tasks", ["none", "cancelled", "done"])
def test_the_end_of_the_block_does_not_wait_for_workers_that_load(tasks: str) -> None:
    with Gate() as gate:
        with tb.WorkerPool(second, workers=2, initializer=partial(wait_for, gate), **QUICK) as pool:
            loading = [gate.who(), gate.who()]
            if tasks == "cancelled":
                assert pool.submit(1).cancel()
            elif tasks == "done":
                gate.let_one_through()
                assert pool.submit(1).result(PATIENCE) == 1
        assert not living(loading)
    unused()


def test_the_end_of_the_block_waits_for_a_worker_if_an_item_needs_it() -> None:
    with Gate() as gate:
        pool = tb.WorkerPool(second, workers=2, initializer=partial(wait_for, gate), **QUICK)
        future = pool.submit(1)
        pool.shutdown(wait=False)
        gate.let_one_through()
        assert future.result(PATIENCE) == 1
        pool.close()  # the other worker still loads


# Shortages.


class Short(multiprocessing.context.ForkContext):
    """A context that cannot start a process for some time."""

    failures = 0

    class Process(multiprocessing.context.ForkProcess):
        def start(self) -> None:
            if Short.failures:
                Short.failures -= 1
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            super().start()


@pytest.fixture
def no_process(short_pauses: None) -> Iterator[type[Short]]:
    yield Short
    Short.failures = 0


def test_a_worker_that_cannot_be_started_now_is_tried_again_for_any_time(
    no_process: type[Short], caplog: pytest.LogCaptureFixture
) -> None:
    with tb.WorkerPool(double, workers=1, context=Short()) as pool:
        no_process.failures = 50
        with pytest.raises(tb.WorkerDied):
            pool.map([Death()])
        assert pool.map([4]) == [8]
        assert no_process.failures == 0
        assert caplog.text.count("cannot be started now") == 1


class Death:
    """An item that kills its worker."""

    def __mul__(self, other: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_pool_begins_with_the_workers_that_can_be_started(no_process: type[Short]) -> None:
    no_process.failures = 1
    with tb.WorkerPool(double, workers=2, context=Short()) as pool:
        assert pool.map([4]) == [8]


def test_a_pool_of_which_no_worker_can_be_started_names_the_limits(
    no_process: type[Short],
) -> None:
    no_process.failures = 2
    with pytest.raises(tb.OutOfMemory, match=r"no worker of the pool could be started.*ulimit -u"):
        tb.WorkerPool(double, workers=2, context=Short())
    unused()


def test_tries_to_start_a_worker_without_descriptors_leave_none_open(elsewhere: Elsewhere) -> None:
    def run() -> None:
        import resource

        from tensorbus._pools.shortage import check_room_for_fork

        opened = sorted(os.listdir("/proc/self/fd"))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        raised = 0
        for limit in range(3, len(opened) + 2):  # the listing has a descriptor of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            try:
                check_room_for_fork()
            except OSError:
                raised += 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert raised > 0
        assert sorted(os.listdir("/proc/self/fd")) == opened

    elsewhere.run(run)


def test_a_pool_lives_while_its_process_has_no_descriptor(elsewhere: Elsewhere) -> None:
    def run(method: str) -> None:
        import resource
        import time

        logging.getLogger("tensorbus.pool").setLevel(logging.CRITICAL)
        with tb.WorkerPool(own, workers=2, context=method) as pool:
            pids = set()
            while len(pids) < 2:
                pids |= set(pool.map(range(4)))
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            while any(Path(f"/proc/{pid}").exists() for pid in pids):
                time.sleep(0.01)
            future = pool.submit(0)
            tell("killed")
            hear()
            assert not future.done()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            tell(future.result() in pids)

    other = elsewhere.start(run, METHODS[-1])
    assert other.hear() == "killed"
    other.tell("go on")
    assert other.hear() is False
    other.finish(quietly=False)  # the bus warns of the shortage, too


def own(_: object) -> int:
    return os.getpid()
