"""Worker pools whose function gets many items at once."""

from __future__ import annotations

import concurrent.futures
import os
import signal
from collections import namedtuple
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.access import is_borrowed
from support.harness import PATIENCE, Elsewhere, eventually, unused, used_bytes
from support.queues.pools import METHODS, QUICK, Gate

# Only a full batch, or the end of the pool, ends the wait for further items.
FULL: Any = {"workers": 1, "max_wait": PATIENCE, **QUICK}

Pair = namedtuple("Pair", ["left", "right"])


def described(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: described(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return type(value).__name__, *map(described, value)
    if isinstance(value, list):
        return [described(each) for each in value]
    if hasattr(value, "shape") and value.shape:
        return f"{type(value).__name__} {value.dtype!s} {tuple(value.shape)}"
    return value


def describe(batch: Any) -> list[Any]:
    """What the function got, for each item: there are always three."""
    return [described(batch)] * 3


def same(batch: Any) -> Any:
    return batch


def np_max_dimensions() -> int:
    return 64 if np.__version__ >= "2" else 32


def batch_of(items: list[Any], function: Any = describe) -> list[Any]:
    with tb.WorkerPool(function, batch=len(items), **FULL) as pool:
        futures = [pool.submit(item) for item in items]
        return [future.result(PATIENCE) for future in futures]


# What the function gets.


@pytest.mark.parametrize("method", METHODS)
def test_arrays_of_one_shape_are_stacked(method: str) -> None:
    options: Any = {**FULL, "context": method}
    with tb.WorkerPool(describe, batch=3, **options) as pool:
        images = [np.full((2, 5), number, "float32") for number in range(3)]
        assert pool.map(images) == ["ndarray float32 (3, 2, 5)"] * 3
    unused()


def test_tensors_of_one_shape_are_stacked(torch: ModuleType) -> None:
    images = [torch.full((2, 5), number) for number in range(3)]
    assert batch_of(images)[0] == "Tensor torch.int64 (3, 2, 5)"
    results = batch_of(images, same)
    assert all(torch.equal(*pair) for pair in zip(results, images, strict=True))
    assert batch_of([torch.tensor(7.0)] * 3)[0] == "Tensor torch.float32 (3,)"


def test_dicts_and_tuples_are_stacked_value_by_value() -> None:
    dicts = [{"x": np.zeros(4), "id": number, "inner": {"y": np.zeros(2)}} for number in range(3)]
    stacks = {"x": "ndarray float64 (3, 4)", "inner": {"y": "ndarray float64 (3, 2)"}}
    assert batch_of(dicts)[0] == {**stacks, "id": [0, 1, 2]}
    tuples = [(np.zeros(4), str(number)) for number in range(3)]
    assert batch_of(tuples)[0] == ("tuple", "ndarray float64 (3, 4)", ["0", "1", "2"])
    pairs = [Pair(np.zeros(4), number) for number in range(3)]
    assert batch_of(pairs)[0] == ("Pair", "ndarray float64 (3, 4)", [0, 1, 2])


@pytest.mark.parametrize(
    "items",
    [
        [np.zeros(1), np.zeros(2), np.zeros(3)],
        [np.zeros(2), np.zeros(2, "float32"), np.zeros(2)],
        [np.zeros(2), None, np.zeros(2)],
        [np.zeros((1,) * np_max_dimensions())] * 3,
        [np.zeros(2, object), np.zeros(2, object), np.zeros(2, object)],
        [np.ma.zeros(2), np.ma.zeros(2), np.ma.zeros(2)],
        [{"x": 1}, {"y": 1}, {"x": 1}],
        [(1, 2), (1,), (1, 2)],
        [(), (), ()],
        [{}, {}, {}],
        [1, 2, 3],
        ["a", None, 3.0],
    ],
)
def test_what_does_not_stack_is_a_list(items: list[Any]) -> None:
    assert batch_of(items)[0] == [described(item) for item in items]


def test_tensors_that_are_more_than_their_elements_do_not_stack(torch: ModuleType) -> None:
    for item in (
        torch.zeros(2, requires_grad=True),
        torch.nn.Parameter(torch.zeros(2)),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, dtype=torch.complex64).conj(),
    ):
        (first, *_) = batch_of([item] * 3)
        assert isinstance(first, list)
        assert len(first) == 3


def test_every_element_that_an_array_can_have_arrives() -> None:
    for dtype in ("U5", "S3", "datetime64[s]", [("a", "int8"), ("b", "float64")], ">i4", "bool"):
        items = [np.ones(4).astype("int8").astype(dtype) for _ in range(3)]
        for result, item in zip(batch_of(items, same), items, strict=True):
            assert result.dtype == item.dtype
            assert (result == item).all()


def test_an_array_in_any_order_is_stacked() -> None:
    base = np.arange(24).reshape(2, 3, 4)
    items = [base.T, np.asfortranarray(base.T + 1), (base + 2).T[::-1, ::-1][::-1, ::-1]]
    for number, result in enumerate(batch_of(items, same)):
        assert (result == base.T + number).all()


# Copies.


def keep(gate: Gate, batch: Any) -> Any:
    assert is_borrowed(batch)
    gate.wait()
    return list(range(len(batch)))


def test_the_block_is_the_only_copy() -> None:
    size = 1 << 20
    images = [tb.empty(size, "uint8"), *(np.zeros(size, "uint8") for _ in range(3))]
    images[0][:] = 0
    before = used_bytes()
    with Gate() as gate, tb.WorkerPool(keep, initializer=itself(gate), batch=4, **FULL) as pool:
        futures = [pool.submit(image) for image in images]
        gate.who()
        assert 4 * size <= used_bytes() - before < 5 * size
        gate.let_one_through()
        assert [future.result(PATIENCE) for future in futures] == [0, 1, 2, 3]
    del images
    unused()


class itself:
    """An initializer that returns a value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self) -> Any:
        return self._value


def test_a_single_item_in_shared_memory_is_not_copied() -> None:
    kept = tb.empty((3, 2000), "int64")
    kept[:] = 3
    before = used_bytes()
    with Gate() as gate:
        options: Any = {"batch": 4, "initializer": itself(gate), **QUICK}
        with tb.WorkerPool(keep, workers=1, **options) as pool:
            future = pool.submit(kept)
            gate.who()
            assert used_bytes() - before < kept.nbytes
            gate.let_one_through()
            assert future.result(PATIENCE) == 0
    del kept
    unused()


def test_a_batch_that_has_no_room_is_sent_item_by_item(elsewhere: Elsewhere) -> None:
    def run() -> None:
        tb.participant(budget_bytes=24 << 20)
        with tb.WorkerPool(sizes_of_all, workers=1, batch=16, max_wait=PATIENCE, **QUICK) as pool:
            futures = [pool.submit(np.zeros(4 << 20, "uint8")) for _ in range(16)]
            assert [future.result(PATIENCE) for future in futures] == [1] * 16
            assert pool.stats.mean_batch == 1

    elsewhere.run(run)


def sizes_of_all(batch: Any) -> list[int]:
    return [len(batch)] * len(batch)


# Results.


def returned(results: Any, count: int = 2) -> list[Any]:
    """The results, or exceptions, of a batch whose function returns a value that is no item."""
    items = [[results], *([[None]] * (count - 1))]  # lists do not stack
    with tb.WorkerPool(first_of_first, batch=count, **FULL) as pool:
        futures = [pool.submit(item) for item in items]
        return [future.exception(PATIENCE) or future.result() for future in futures]


def first_of_first(batch: Any) -> Any:
    return batch[0][0]


def test_results_are_rows_or_a_list() -> None:
    assert [row.tolist() for row in returned(np.arange(4).reshape(2, 2))] == [[0, 1], [2, 3]]
    assert returned(np.arange(2)) == [0, 1]
    assert returned([1, "a"]) == [1, "a"]
    assert returned({"x": np.arange(2), "y": ["a", "b"]}) == [
        {"x": 0, "y": "a"},
        {"x": 1, "y": "b"},
    ]
    assert returned((np.arange(2), ["a", "b"])) == [(0, "a"), (1, "b")]
    assert returned(Pair(np.arange(2), [3, 4])) == [Pair(0, 3), Pair(1, 4)]


def test_torch_results_are_rows(torch: ModuleType) -> None:
    for result in returned(torch.ones(2, 3)):
        assert torch.equal(result, torch.ones(3))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1], "1 results for a batch of 2"),
        ([1, 2, 3], "3 results for a batch of 2"),
        (np.zeros((3, 2)), "3 rows for a batch of 2"),
        (np.float64(1), "a float64 for a batch"),
        (np.array(1.0), "a ndarray for a batch"),
        ({"x": np.zeros(2), "y": np.zeros(1)}, "1 rows for a batch of 2"),
        ((1, 2), "a int for a batch"),
        ({}, "an empty dict for a batch"),
        (None, "None for a batch"),
        ("ab", "a str for a batch"),
    ],
)
def test_a_wrong_number_of_results_is_an_error_that_says_so(value: Any, text: str) -> None:
    for error in returned(value):
        assert isinstance(error, tb.InvalidArgument)
        assert text in str(error)


def test_an_exception_among_the_results_fails_its_item_alone() -> None:
    good, bad = returned(["good", LookupError("bad")])
    assert (good, repr(bad)) == ("good", "LookupError('bad')")
    good, bad = returned({"x": np.arange(2), "y": ["good", LookupError("bad")]})
    assert (good, repr(bad)) == ({"x": 0, "y": "good"}, "LookupError('bad')")


def test_a_write_to_one_result_changes_no_other(torch: ModuleType) -> None:
    for value in (
        np.broadcast_to(np.zeros(3000), (2, 3000)),
        np.lib.stride_tricks.sliding_window_view(np.zeros(3001), 3000),
        torch.zeros(3000).expand(2, 3000),
        torch.zeros(3001).unfold(0, 3000, 1),
        torch.zeros(3000, 2).T,
    ):
        first, second = returned(value)
        first += 1
        assert not second.any()
        second += 2
        assert (first == 1).all()


def fail(batch: Any) -> Any:
    raise LookupError("no model")


def test_an_exception_of_the_function_fails_all_items_of_the_batch() -> None:
    with tb.WorkerPool(fail, batch=3, **FULL) as pool:
        errors = [pool.submit(number) for number in range(3)]
        found = [future.exception(PATIENCE) for future in errors]
    assert [repr(error) for error in found] == ["LookupError('no model')"] * 3
    assert len({id(error) for error in found}) == 3
    assert "in fail" in str(found[0].__cause__ if found[0] else None)


class Fragile:
    def __reduce__(self) -> Any:
        return cannot_be_read, ()


def cannot_be_read() -> None:
    raise RuntimeError("cannot be read")


def unsendable(batch: list[Any]) -> list[Any]:
    return [(lambda: None) if item == 1 else item for item in batch]


def test_what_cannot_be_sent_fails_alone() -> None:
    with tb.WorkerPool(same, batch=3, **FULL) as pool:
        for bad in (lambda: None, Fragile()):
            futures = [pool.submit(item) for item in (1, bad, 3)]
            outcomes = [future.exception(PATIENCE) or future.result() for future in futures]
            assert (outcomes[0], outcomes[2]) == (1, 3)
            assert isinstance(outcomes[1], Exception)
    with tb.WorkerPool(unsendable, batch=3, **FULL) as pool:
        futures = [pool.submit(item) for item in range(3)]
        outcomes = [future.exception(PATIENCE) or future.result() for future in futures]
        assert (outcomes[0], outcomes[2]) == (0, 2)
        assert isinstance(outcomes[1], Exception)
    unused()


# When a batch goes.


def sizes(batch: list[Any]) -> list[int]:
    for item in batch:
        if isinstance(item, Gate):
            item.wait()
    return [len(batch)] * len(batch)


def test_a_full_batch_does_not_wait_and_the_end_of_the_pool_ends_a_wait() -> None:
    pool = tb.WorkerPool(sizes, batch=3, **FULL)
    futures = [pool.submit(number) for number in range(5)]
    assert [future.result(PATIENCE) for future in futures[:3]] == [3, 3, 3]
    assert not any(future.done() for future in futures[3:])
    pool.shutdown(wait=False)
    assert [future.result(PATIENCE) for future in futures[3:]] == [2, 2]
    pool.close()


def test_a_batch_that_is_not_full_goes_after_its_wait() -> None:
    with tb.WorkerPool(sizes, workers=1, batch=8, max_wait=0.01, **QUICK) as pool:
        assert pool.submit(1).result(PATIENCE) == 1


def test_items_that_come_while_the_workers_are_busy_are_one_batch() -> None:
    with Gate() as gate, tb.WorkerPool(sizes, workers=1, batch=8, **QUICK) as pool:
        first = pool.submit(gate)
        gate.who()
        others = [pool.submit(number) for number in range(11)]
        gate.let_one_through()
        assert first.result(PATIENCE) == 1
        assert [future.result(PATIENCE) for future in others] == [8] * 8 + [3] * 3


def test_a_cancelled_future_is_not_part_of_a_batch() -> None:
    with Gate() as gate, tb.WorkerPool(sizes, batch=2, **FULL) as pool:
        running = [pool.submit(gate), pool.submit(0)]
        gate.who()
        one, other = pool.submit(1), pool.submit(2)
        assert one.cancel()
        gate.let_one_through()
        assert [future.result(PATIENCE) for future in running] == [2, 2]
        eventually(lambda: pool.stats.cancelled == 1)
        assert not other.done()
        assert pool.submit(3).result(PATIENCE) == 2
        assert other.result(PATIENCE) == 2


@pytest.mark.parametrize("form", ["map", "imap", "imap_unordered"])
def test_maps_fill_the_batches(form: str) -> None:
    with tb.WorkerPool(sizes, workers=1, batch=4, max_wait=PATIENCE, **QUICK) as pool:
        assert list(getattr(pool, form)(range(64))) == [4] * 64


def test_nonsense_is_refused() -> None:
    for wrong in (
        {"batch": 0},
        {"batch": True},
        {"max_wait": 1.0},
        {"batch": 2, "max_wait": None},
        {"batch": 2, "max_wait": float("nan")},
        {"batch": 2, "access": "shared"},
    ):
        options: Any = wrong
        with pytest.raises(tb.InvalidArgument):
            tb.WorkerPool(sizes, **options)
    with pytest.raises(tb.InvalidArgument, match="only a pool with a function"):
        tb.WorkerPool(batch=2)
    with (
        tb.WorkerPool(sizes, workers=1, batch=2, **QUICK) as pool,
        pytest.raises(TypeError, match="no chunksize"),
    ):
        pool.map([1], chunksize=2)
    unused()


# Deaths.


def die_at_kill(batch: list[Any]) -> list[Any]:
    if "kill" in batch:
        os.kill(os.getpid(), signal.SIGKILL)
    return [len(batch)] * len(batch)


def test_a_batch_whose_worker_dies_fails_without_retries() -> None:
    with tb.WorkerPool(die_at_kill, batch=3, **FULL) as pool:
        futures = [pool.submit(item) for item in (1, "kill", 2)]
        for future in futures:
            with pytest.raises(tb.WorkerDied, match="died by SIGKILL"):
                future.result(PATIENCE)
        futures = [pool.submit(item) for item in range(3)]
        assert [future.result(PATIENCE) for future in futures] == [3] * 3
    unused()


def test_items_are_tried_again_one_by_one_so_that_only_the_deadly_one_fails() -> None:
    with tb.WorkerPool(die_at_kill, batch=3, retries=2, **FULL) as pool:
        futures = [pool.submit(item) for item in (1, "kill", 2)]
        assert [future.result(PATIENCE) for future in (futures[0], futures[2])] == [1, 1]
        with pytest.raises(tb.WorkerDied, match="the last of 3 attempts"):
            futures[1].result(PATIENCE)
        assert pool.stats.restarts == 3


def test_kills_from_outside_lose_and_double_nothing() -> None:
    count = 300
    with tb.Queue() as ran:
        options: Any = {"retries": 100, "batch": 7, "initializer": itself(ran), **QUICK}
        with tb.WorkerPool(note, workers=2, **options) as pool:
            futures = [pool.submit(np.full(3, number)) for number in range(count)]
            for number in range(12):
                victim = ran.get(timeout=PATIENCE)
                if number % 4 == 0:
                    with suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
            concurrent.futures.wait(futures, PATIENCE)
            assert [future.result(0)[0] for future in futures] == list(range(count))
            stats = pool.stats
        assert (stats.done, stats.failed, stats.waiting, stats.running) == (count, 0, 0, 0)
    unused()


def note(ran: Any, batch: Any) -> Any:
    ran.put(os.getpid())
    return batch
