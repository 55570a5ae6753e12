"""Worker pools: results, exceptions, deaths and ends, with real processes."""

from __future__ import annotations

import concurrent.futures
import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from harness import PATIENCE, SANITIZED, Elsewhere, eventually, hear, tell

METHODS = ["spawn"] if SANITIZED else ["spawn", "fork"]
# Most tests are not about how processes start, and forks are faster.
QUICK: Any = {"context": METHODS[-1]}


def unused() -> None:
    gc.collect()
    eventually(lambda: tb.participant().arena["used_bytes"] == 0)


def double(item: Any) -> Any:
    return item * 2


def fail_at_three(number: int) -> int:
    if number == 3:
        raise ValueError(f"no {number}")
    return number


class Unfit(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__("together")
        self.lock = threading.Lock()


def raise_what_cannot_travel(_: int) -> None:
    raise Unfit(1, 2)


def return_what_cannot_travel(_: int) -> Any:
    return lambda: None


class Fragile:
    def __reduce__(self) -> Any:
        return cannot_be_read, ()


def cannot_be_read() -> None:
    raise RuntimeError("cannot be read")


def return_what_cannot_be_read(_: int) -> Any:
    return Fragile()


def pid(_: Any) -> int:
    return os.getpid()


def die(how: str) -> Any:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "_exit":
        os._exit(3)
    elif how == "exit":
        sys.exit(4)
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


class Gate:
    """Where workers wait until they are let through."""

    def __init__(self) -> None:
        self._there = tb.Queue()
        self._go = tb.Queue()

    def wait(self) -> None:
        self._there.put(os.getpid())
        self._go.get()

    def who(self) -> int:
        """The next one that waits."""
        pid: int = self._there.get(timeout=PATIENCE)
        return pid

    def let_one_through(self) -> None:
        self._go.put("go")

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self._there.close()
        self._go.close()


def wait_for(gate: Gate) -> str:
    gate.wait()
    return "through"


# Results.


@pytest.mark.parametrize("method", METHODS)
def test_map_gives_results_in_order(method: str) -> None:
    with tb.WorkerPool(double, workers=2, context=method) as pool:
        assert pool.map(range(50)) == [2 * number for number in range(50)]
        assert pool.map([]) == []
        assert pool.map(["a"]) == ["aa"]
    unused()


def test_it_starts_fresh_interpreters_unless_told_otherwise() -> None:
    with tb.WorkerPool(start_method, workers=1) as pool:
        assert pool.map([0]) == ["spawn"]


def start_method(_: int) -> str | None:
    return multiprocessing.get_start_method(allow_none=True)


def twice_and_itself(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "twice": item["image"] * 2,
        "same": item["image"],
        "flags": item["image"].flags.writeable,
    }


@pytest.mark.parametrize("method", METHODS)
def test_tensors_go_both_ways_by_reference(method: str) -> None:
    kept = tb.empty((100, 100), "int64")
    kept[:] = 3
    with tb.WorkerPool(twice_and_itself, workers=2, context=method) as pool:
        for result in pool.imap([{"image": kept}] * 10):
            assert (result["twice"] == 6).all()
            assert np.shares_memory(result["same"], kept) or (result["same"] == 3).all()
            assert not result["flags"]
    assert (result["twice"] == 6).all()
    del result, kept
    unused()


def test_torch_tensors_too(torch: ModuleType) -> None:
    with tb.WorkerPool(double, workers=1) as pool:
        [result] = pool.map([torch.arange(5)])
    assert torch.equal(result, 2 * torch.arange(5))


def test_imap_unordered_gives_them_as_they_come() -> None:
    with Gate() as gate, tb.WorkerPool(maybe_wait, workers=2, **QUICK) as pool:
        results = pool.imap_unordered([gate, 1, 2, 3], ahead=4)
        assert sorted(next(results) for _ in range(3)) == [1, 2, 3]
        gate.let_one_through()
        assert list(results) == ["waited"]


def maybe_wait(item: Any) -> Any:
    if isinstance(item, Gate):
        item.wait()
        return "waited"
    return item


@pytest.mark.parametrize("form", ["imap", "imap_unordered"])
def test_only_so_many_are_taken_ahead_of_the_results(form: str) -> None:
    taken = 0

    def endless() -> Any:
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield number

    with tb.WorkerPool(double, workers=2, **QUICK) as pool:
        results = getattr(pool, form)(endless())
        assert taken == 0
        for count in range(1, 30):
            next(results)
            assert taken <= count + 4
        results.close()
        for count, _ in enumerate(getattr(pool, form)(range(10), ahead=1)):
            assert count < 10


def test_all_workers_work() -> None:
    with Gate() as gate, tb.WorkerPool(wait_for, workers=3, **QUICK) as pool:
        futures = [pool.submit(gate) for _ in range(3)]
        assert len({gate.who() for _ in range(3)}) == 3
        for _ in range(3):
            gate.let_one_through()
        assert [future.result(PATIENCE) for future in futures] == ["through"] * 3


def load(device: str) -> dict[str, Any]:
    return {"device": device, "by": os.getpid()}


def on_device(state: dict[str, Any], item: int, device: str) -> Any:
    assert state == {"device": device, "by": os.getpid()}
    return device


def test_each_device_has_a_worker_and_an_initializer_runs_once_in_each() -> None:
    devices = ["cpu:0", "cpu:1"]
    with tb.WorkerPool(on_device, devices=devices, initializer=load, **QUICK) as pool:
        assert set(pool.map(range(40))) <= set(devices)
        assert "workers=2" in repr(pool)


def test_a_pool_that_makes_no_sense_is_refused() -> None:
    for wrong in (
        {"workers": 0},
        {"workers": 1, "devices": ["cpu"]},
        {"devices": []},
        {"devices": "cuda:0"},
        {"devices": ["cuda:0"]},  # nobody takes it
        {"retries": -1},
    ):
        options: Any = wrong
        with pytest.raises(tb.InvalidArgument):
            tb.WorkerPool(double, **options)
    with pytest.raises(Exception, match="pickle"):
        tb.WorkerPool(lambda item: item, workers=1)
    unused()


def test_a_forked_worker_may_have_any_function() -> None:
    if not SANITIZED:
        with tb.WorkerPool(lambda item: item + 1, workers=1, context="fork") as pool:
            assert pool.map([1]) == [2]


# Futures.


def test_a_future_that_has_not_begun_can_be_cancelled() -> None:
    with Gate() as gate, tb.WorkerPool(wait_for, workers=1, **QUICK) as pool:
        running = pool.submit(gate)
        gate.who()
        waiting = pool.submit(gate)
        last = pool.submit(gate)
        assert not running.cancel()
        assert waiting.cancel()
        gate.let_one_through()
        assert running.result(PATIENCE) == "through"
        gate.who()
        gate.let_one_through()
        assert last.result(PATIENCE) == "through"


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


def test_a_map_has_a_timeout() -> None:
    with Gate() as gate, tb.WorkerPool(wait_for, workers=1, **QUICK) as pool:
        busy = pool.submit(gate)
        gate.who()
        for form in (pool.map, pool.imap, pool.imap_unordered):
            with pytest.raises(tb.Timeout):
                list(form([gate, gate], timeout=0.05))
        gate.let_one_through()
        assert busy.result(PATIENCE) == "through"


def test_threads_share_a_pool() -> None:
    sums: list[int] = []
    with tb.WorkerPool(double, workers=2, **QUICK) as pool:
        threads = [
            threading.Thread(target=lambda: sums.append(sum(pool.map(range(50))))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sums == [2450] * 4


# Exceptions.


def test_an_exception_has_the_traceback_of_the_worker() -> None:
    with tb.WorkerPool(fail_at_three, workers=2, **QUICK) as pool:
        with pytest.raises(ValueError, match="no 3") as raised:
            pool.map(range(10))
        assert 'raise ValueError(f"no {number}")' in str(raised.value.__cause__)
        assert "fail_at_three" in str(raised.value.__cause__)
        assert pool.map([1, 2]) == [1, 2]


def test_what_cannot_travel_is_told_for_its_item_alone() -> None:
    for function, text in (
        (raise_what_cannot_travel, "Unfit: together"),
        (return_what_cannot_travel, "pickle"),
        (return_what_cannot_be_read, "cannot be read"),
    ):
        with tb.WorkerPool(function, workers=1, **QUICK) as pool:
            for _ in range(3):
                with pytest.raises(Exception, match=text):
                    pool.map([1])
    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        with pytest.raises(Exception, match="pickle"):
            pool.map([lambda: None])
        with pytest.raises(Exception, match="cannot be read"):
            pool.map([Fragile()])
        assert pool.map([4]) == [8]
    unused()


def refuse() -> None:
    raise LookupError("no model")


@pytest.mark.parametrize("method", METHODS)
def test_an_initializer_that_raises_ends_the_pool(method: str) -> None:
    with tb.WorkerPool(double, workers=2, initializer=refuse, context=method) as pool:
        with pytest.raises(LookupError, match="no model"):
            pool.map(range(5))
        with pytest.raises(LookupError, match="no model"):
            pool.submit(1)


def test_a_worker_that_dies_as_it_starts_ends_the_pool() -> None:
    with (
        tb.WorkerPool(double, workers=1, initializer=leave, **QUICK) as pool,
        pytest.raises(tb.WorkerDied, match=r"exit code 5 while it started"),
    ):
        pool.submit(1).result(PATIENCE)


def leave() -> None:
    os._exit(5)


# Deaths.


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ("kill", r"by SIGKILL \(exit code -9\)"),
        ("segfault", r"by SIGSEGV \(exit code -11\)"),
        ("_exit", "with exit code 3"),
        ("exit", "with exit code 4"),
    ],
)
def test_a_worker_that_dies_is_replaced_and_its_item_failed(how: str, end: str) -> None:
    with tb.WorkerPool(die, workers=1, **QUICK) as pool:
        for _ in range(2):
            with pytest.raises(tb.WorkerDied, match=rf"worker 0 \(process \d+\) died {end}"):
                pool.map([how])
            assert pool.map(["no"]) == ["no"]
    unused()


def test_its_item_is_tried_again_so_often(tmp_path: Path) -> None:
    for number, retries in enumerate((2, 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with tb.WorkerPool(die_until, workers=2, retries=retries, **QUICK) as pool:
            future = pool.submit(str(folder))
            if retries == 2:
                with pytest.raises(tb.WorkerDied, match="the last of 3 that tried"):
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
    count = 150
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


def test_a_forked_child_is_told_to_make_its_own(elsewhere: Elsewhere) -> None:
    def run() -> None:
        from harness import in_a_fork

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


# Progress.


def test_a_bar_is_drawn_when_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich", reason="rich is not installed")
    from tensorbus import _progress

    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        assert pool.map([1, 2], progress=True) == [2, 4]
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(_progress, "_PATIENCE", 0.0)
        assert pool.map([1, 2], progress=True) == [2, 4]
        assert "2/2" in capsys.readouterr().err
        assert pool.map([1, 2], progress=False) == [2, 4]
        assert pool.map([1, 2]) == [2, 4]  # stderr is no terminal
        assert capsys.readouterr().err == ""


def test_a_bar_without_rich_is_an_error_only_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tensorbus import _progress

    monkeypatch.setattr(_progress, "find_spec", lambda name: None)
    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        assert pool.map([1]) == [2]
        with pytest.raises(ImportError, match="rich"):
            pool.map([1], progress=True)


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "worker_pool.md").read_text()
    program = tmp_path / "program.py"
    program.write_text(page.partition("```python")[2].partition("```")[0])
    subprocess.run([sys.executable, program], check=True, timeout=PATIENCE)
