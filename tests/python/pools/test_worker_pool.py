"""Worker pools: results, exceptions and progress, with real processes."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.access import is_borrowed
from support.harness import PATIENCE, SANITIZED, unused
from support.queues.pools import METHODS, QUICK, Gate, double, wait_for
from support.repository import ROOT

# CPython 3.13 says no more of a local function than that it cannot get it.
UNFIT = "pickle|Can't get local object"


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
        "borrowed": is_borrowed(item["image"]),
    }


@pytest.mark.parametrize("method", METHODS)
def test_tensors_go_both_ways_by_reference(method: str) -> None:
    kept = tb.empty((100, 100), "int64")
    kept[:] = 3
    with tb.WorkerPool(twice_and_itself, workers=2, context=method) as pool:
        for result in pool.imap([{"image": kept}] * 10):
            assert (result["twice"] == 6).all()
            assert np.shares_memory(result["same"], kept) or (result["same"] == 3).all()
            assert result["borrowed"]
    assert (result["twice"] == 6).all()
    del result, kept
    unused()


def test_torch_tensors_too(torch: ModuleType) -> None:
    with tb.WorkerPool(double, workers=1) as pool:
        [result] = pool.map([torch.arange(5)])
    assert torch.equal(result, 2 * torch.arange(5))


def test_imap_unordered_gives_them_as_they_come() -> None:
    with Gate() as gate, tb.WorkerPool(maybe_wait, workers=2, **QUICK) as pool:
        results = pool.imap_unordered([gate, 1, 2, 3], prefetch=4)
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
        for count, _ in enumerate(getattr(pool, form)(range(10), prefetch=1)):
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
        {"devices": ["cpu:0"]},  # nobody takes it
        {"retries": -1},
    ):
        options: Any = wrong
        with pytest.raises(tb.InvalidArgument):
            tb.WorkerPool(double, **options)
    with pytest.raises(Exception, match=UNFIT):
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
        (return_what_cannot_travel, UNFIT),
        (return_what_cannot_be_read, "cannot be read"),
    ):
        with tb.WorkerPool(function, workers=1, **QUICK) as pool:
            for _ in range(3):
                with pytest.raises(Exception, match=text):
                    pool.map([1])
    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        with pytest.raises(Exception, match=UNFIT):
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


# Progress.


def test_a_bar_is_drawn_when_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich", reason="rich is not installed")
    from tensorbus._pools import progress

    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        assert pool.map([1, 2], progress=True) == [2, 4]
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(progress, "_BAR_AFTER", 0.0)
        assert pool.map([1, 2], progress=True) == [2, 4]
        assert "2/2" in capsys.readouterr().err
        assert pool.map([1, 2], progress=False) == [2, 4]
        assert pool.map([1, 2]) == [2, 4]  # stderr is no terminal
        assert capsys.readouterr().err == ""


def test_a_bar_without_rich_is_an_error_only_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tensorbus._pools import progress

    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        assert pool.map([1]) == [2]
        with pytest.raises(ImportError, match="rich"):
            pool.map([1], progress=True)


@pytest.mark.timeout(600)
def test_the_examples_of_the_documentation_run(tmp_path: Path, torch: ModuleType) -> None:
    page = (ROOT / "docs" / "worker_pool.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    complete = [example for example in examples if "__main__" in example]
    assert len(complete) > 3
    for number, example in enumerate(complete):
        program = tmp_path / f"program_{number}.py"
        program.write_text(example)
        subprocess.run([sys.executable, program], check=True, timeout=6 * PATIENCE)
