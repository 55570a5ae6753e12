"""Worker pools whose workers die, and pools that end: closed, terminated, interrupted, killed."""

from __future__ import annotations

import concurrent.futures
import gc
import multiprocessing
import os
import re
import signal
import threading
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED, Elsewhere, eventually, hear, tell, unused
from support.queues.pools import METHODS, QUICK, Gate, double, wait_for


def pid(_: Any) -> int:
    return os.getpid()


def die(how: str) -> Any:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "_exit":
        os._exit(3)
    elif how == "segfault":
        import ctypes
        import faulthandler
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()  # pytest's
        ctypes.string_at(0)
    return how


def die_until(folder: str) -> int:
    """Dies three times."""
    tries = len(os.listdir(folder))
    Path(folder, str(tries)).touch()
    if tries < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return tries


# Deaths.


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ("kill", r"by SIGKILL \(exit code -9\)"),
        ("segfault", r"by SIGSEGV \(exit code -11\)"),
        ("_exit", "with exit code 3"),
    ],
)
def test_a_worker_that_dies_is_replaced_and_its_item_failed(how: str, end: str) -> None:
    with tb.WorkerPool(die, workers=1, **QUICK) as pool:
        for _ in range(2):
            with pytest.raises(tb.WorkerDied, match=rf"worker 0 \(process \d+\) died {end}"):
                pool.map([how])
            assert pool.map(["no"]) == ["no"]
    unused()


def test_a_death_at_an_item_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with tb.WorkerPool(die, workers=1, retries=1, **QUICK) as pool, pytest.raises(tb.WorkerDied):
        pool.map(["_exit"])
    logged = [record.getMessage() for record in caplog.records if record.name == "tensorbus.pool"]
    deaths = [re.sub(r"process \d+", "process", text) for text in logged]
    assert deaths == [
        "worker 0 (process) died with exit code 3, with 1 items, of which 1 are tried again",
        "worker 0 (process) died with exit code 3, with 1 items, of which 0 are tried again",
    ]


def test_its_item_is_tried_again_so_often(tmp_path: Path) -> None:
    for number, retries in enumerate((2, 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with tb.WorkerPool(die_until, workers=2, retries=retries, **QUICK) as pool:
            future = pool.submit(str(folder))
            if retries == 2:
                with pytest.raises(tb.WorkerDied, match="the last of 3 attempts"):
                    future.result(PATIENCE)
            else:
                assert future.result(PATIENCE) == 3
        assert len(os.listdir(folder)) == 1 + retries


def test_one_that_dies_while_it_has_nothing_is_replaced() -> None:
    with tb.WorkerPool(pid, workers=1, **QUICK) as pool:
        [first] = pool.map([0])
        os.kill(first, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{first}").exists())  # it was seen, and reaped
        [second] = pool.map([0])
        assert second != first


@pytest.mark.parametrize("retries", [0, 100])
def test_kills_at_any_moment_lose_and_double_nothing(retries: int) -> None:
    count = 40 if SANITIZED else 150  # there, a worker starts in seconds
    with tb.Queue() as ran, tb.WorkerPool(note, workers=2, retries=retries, **QUICK) as pool:

        def kill_some() -> None:
            for number, who in enumerate(ran):
                if number % 10 == 5:
                    with suppress(ProcessLookupError):
                        os.kill(who, signal.SIGKILL)

        killer = threading.Thread(target=kill_some)
        killer.start()
        futures = [pool.submit((ran, number)) for number in range(count)]
        concurrent.futures.wait(futures, PATIENCE)
        ran.close()
        killer.join()
        for number, future in enumerate(futures):
            if future.exception(0) is None:
                assert future.result(0) == number
            else:
                assert retries == 0
                assert isinstance(future.exception(0), tb.WorkerDied)


def note(item: Any) -> int:
    ran, number = item
    ran.put(os.getpid())
    return int(number)


def test_items_are_never_run_by_two_at_once(tmp_path: Path) -> None:
    with tb.WorkerPool(exclusively, workers=3, retries=50, **QUICK) as pool:
        items = [(str(tmp_path / str(number)), number) for number in range(30)]
        assert pool.map(items) == list(range(30))


def exclusively(item: tuple[str, int]) -> int:
    import fcntl

    path, number = item
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel frees it at a death
        file.write("x")
        file.flush()
        if number % 3 == 0 and file.tell() < 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return number


# Ends.


def test_closing_waits_for_what_was_submitted() -> None:
    pool = tb.WorkerPool(double, workers=2, **QUICK)
    futures = [pool.submit(number) for number in range(20)]
    pool.close()
    pool.close()
    assert [future.result(0) for future in futures] == [2 * number for number in range(20)]
    with pytest.raises(tb.Closed):
        pool.submit(1)
    with pytest.raises(tb.Closed):
        pool.map([1])
    pool.terminate()


@pytest.mark.parametrize("end", ["close", "terminate", "failed"])
def test_what_is_refused_is_not_kept(end: str) -> None:
    initializer = fail if end == "failed" else None
    pool = tb.WorkerPool(double, workers=1, initializer=initializer, **QUICK)
    if end == "failed":
        with suppress(LookupError):  # the worker may have failed already
            assert isinstance(pool.submit(1).exception(PATIENCE), LookupError)
    else:
        getattr(pool, end)()

    def refused() -> weakref.ref[Any]:
        array = np.ones(1000)
        with suppress(tb.Closed, LookupError):
            pool.submit(array)
        return weakref.ref(array)

    def depth() -> int:
        with pytest.raises((tb.Closed, LookupError)) as caught:
            pool.submit(1)
        return len(caught.traceback)

    before = depth()
    for _ in range(3):
        array = refused()
    gc.collect()
    assert array() is None
    assert depth() == before
    pool.close()


def test_each_item_that_a_pool_leaves_has_an_exception_of_its_own() -> None:
    with Gate() as gate:
        pool = tb.WorkerPool(wait_for, workers=1, **QUICK)
        futures = [pool.submit(gate) for _ in range(3)]
        gate.who()
        pool.terminate()
        errors = [future.exception(0) for future in futures]
        assert [str(error) for error in errors] == ["the worker pool was terminated"] * 3
        assert len({id(error) for error in errors}) == 3


def test_the_cause_of_a_pools_end_is_that_of_each_refusal() -> None:
    load = partial(fail_behind, gate := Gate())
    with gate, tb.WorkerPool(double, workers=1, initializer=load, **QUICK) as pool:
        futures = [pool.submit(number) for number in range(2)]
        gate.let_one_through()
        errors = [future.exception(PATIENCE) for future in futures]
        with pytest.raises(LookupError, match="no model") as caught:
            pool.submit(3)
        for error in (*errors, caught.value):
            assert isinstance(error, LookupError)
            assert "in fail_behind\n" in str(error.__cause__)


def fail_behind(gate: Gate) -> None:
    gate.wait()
    raise LookupError("no model")


def fail() -> None:
    raise LookupError("no model")


def alive(pids: list[int]) -> list[int]:
    return [each for each in pids if Path(f"/proc/{each}").exists()]


def test_terminate_kills_and_what_has_no_result_is_closed() -> None:
    with Gate() as gate:
        pool = tb.WorkerPool(wait_for, workers=2, **QUICK)
        futures = [pool.submit(gate) for _ in range(4)]
        pids = [gate.who() for _ in range(2)]
        pool.terminate()
        assert not alive(pids)
        for future in futures:
            assert isinstance(future.exception(0), tb.Closed)
        with pytest.raises(tb.Closed, match="terminated"):
            pool.submit(gate)
    unused()


def test_an_exception_that_leaves_the_block_ends_the_workers_at_once() -> None:
    with Gate() as gate:
        with (  # noqa: PT012
            pytest.raises(LookupError),
            tb.WorkerPool(wait_for, workers=1, **QUICK) as pool,
        ):
            pool.submit(gate)
            pids = [gate.who()]
            raise LookupError
        assert not alive(pids)


def pool_in_a_program(method: str, form: str) -> None:
    gate = Gate()
    try:
        with tb.WorkerPool(hang, workers=2, context=method) as pool:
            futures = [pool.submit(gate) for _ in range(2)]
            tell([gate.who() for _ in range(2)])
            if form == "close":
                pool.close()
            elif form == "result":
                futures[0].result()
            elif form == "map":
                pool.map([gate])
    except KeyboardInterrupt:
        tell("interrupted")


def hang(gate: Gate) -> None:
    gate.wait()


@pytest.mark.parametrize("form", ["close", "result", "map", "leave"])
def test_ctrl_c_ends_the_workers(elsewhere: Elsewhere, form: str) -> None:
    other = elsewhere.start(pool_in_a_program, METHODS[-1], form)
    pids = other.hear()
    other.wait_until_asleep()
    for each in pids:
        os.kill(each, signal.SIGINT)  # a terminal sends it to all
    other.signal(signal.SIGINT)
    assert other.hear() == "interrupted"
    other.finish()
    assert not alive(pids)


def idle_pool(method: str) -> None:
    pool = tb.WorkerPool(pid, workers=2, context=method)
    seen: set[int] = set()
    while len(seen) < 2:
        seen.update(pool.map(range(4)))
    tell(sorted(seen))
    if hear() == "end":
        return
    hear()


@pytest.mark.parametrize("method", METHODS)
def test_workers_end_when_the_process_of_the_pool_is_killed(
    elsewhere: Elsewhere, method: str
) -> None:
    other = elsewhere.start(idle_pool, method)
    pids = other.hear()
    other.kill()
    eventually(lambda: not running(pids))


def running(pids: list[int]) -> list[int]:
    """Those that are no zombies: nobody may be there to reap them."""
    return [each for each in alive(pids) if " Z " not in Path(f"/proc/{each}/stat").read_text()]


@pytest.mark.parametrize("method", METHODS)
def test_a_program_may_end_without_closing_its_pool(elsewhere: Elsewhere, method: str) -> None:
    other = elsewhere.start(idle_pool, method)
    pids = other.hear()
    other.tell("end")
    other.finish()
    assert not alive(pids)


def pool_in_a_child(method: str, how: str) -> None:
    process = multiprocessing.get_context(method).Process(target=leave_a_pool, args=(method, how))
    process.start()
    process.join(PATIENCE)
    tell(process.exitcode)
    process.kill()


def leave_a_pool(method: str, how: str) -> None:
    pool = tb.WorkerPool(pid, workers=2, context=method)
    tell(pool.map(range(4)))
    if how == "shutdown":
        pool.shutdown(wait=False)
    elif how == "raise":
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the traceback is of no interest
        raise LookupError


@pytest.mark.parametrize("how", ["return", "raise", "shutdown"])
@pytest.mark.parametrize("method", METHODS)
def test_a_child_of_multiprocessing_may_end_without_closing_its_pool(
    elsewhere: Elsewhere, method: str, how: str
) -> None:
    other = elsewhere.start(pool_in_a_child, method, how)
    pids = other.hear()
    assert other.hear(2 * PATIENCE) == (how == "raise")
    assert not alive(pids)
    other.finish()


def test_a_forked_child_is_told_to_make_its_own(elsewhere: Elsewhere) -> None:
    def run() -> None:
        from support.harness import in_a_fork

        with tb.WorkerPool(len, workers=1, context="fork") as pool:

            def child() -> None:
                with pool, pytest.raises(tb.Forked):
                    pool.submit("a")

            in_a_fork(child)
            assert pool.map(["ab"]) == [2]

    if not SANITIZED:
        elsewhere.run(run)


def test_it_leaves_no_descriptor_and_no_thread() -> None:
    def run_one() -> None:
        with tb.WorkerPool(double, workers=2, **QUICK) as pool:
            assert len(pool.map([np.ones(1000)] * 10)) == 10

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    run_one()
    gc.collect()
    threads = threading.active_count()
    eventually(lambda: tb.participant().arena["used_bytes"] == 0)
    before = descriptors()
    for _ in range(5):
        run_one()
    unused()
    eventually(lambda: descriptors() <= before)
    assert threading.active_count() == threads


def test_a_worker_that_begins_when_its_pool_is_over_ends_quietly(elsewhere: Elsewhere) -> None:
    def begin_too_late() -> None:
        from tensorbus._pools.worker import work

        inbox, outbox = tb.Queue(), tb.Queue()
        for queue in (inbox, outbox):
            queue.close()
            with pytest.raises(SystemExit):
                work(inbox.address, outbox.address, tb.participant().domain, None)

    elsewhere.run(begin_too_late)


def test_the_death_of_an_idle_worker_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with tb.WorkerPool(pid, workers=1, **QUICK) as pool:
        victim = pool.submit(0).result(PATIENCE)
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: pool.stats.restarts == 1)
        eventually(lambda: "without an item; another worker is started" in caplog.text)
    assert caplog.text.count("died") == 1


def test_workers_that_die_without_an_item_are_replaced_after_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tensorbus._pools import place

    monkeypatch.setattr(place, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(place, "_LONGEST_PAUSE", 1000.0)
    with tb.WorkerPool(pid, workers=1, **QUICK) as pool:
        [only] = pool._manager._crew._places

        def kill_idle(in_a_row: int) -> None:
            pool.ready(PATIENCE)
            pool._manager._crew.workers()[0].kill()
            eventually(lambda: only._failures == in_a_row)

        for number in range(1, 5):
            kill_idle(number)
        pool.map([0])
        monkeypatch.setattr(place, "_FIRST_PAUSE", 1000.0)
        kill_idle(0)  # it has finished an item: another one comes at once
        kill_idle(1)
        assert (only.pause or 0) > 900
        pool.terminate()
