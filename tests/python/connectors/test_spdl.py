"""Items of an SPDL pipeline in another process come by reference, and stay."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tensorbus as tb
from support.harness import eventually, used_bytes
from tensorbus.connectors.spdl import Arena

pipeline = pytest.importorskip("spdl.pipeline")

SIZE = 1 << 18  # elements of an item, of 8 bytes


class Items:
    """In the worker: the same items in each iteration."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        torch.set_num_threads(1)  # a forked worker does not have the threads of PyTorch's pool
        for number in range(self._count):
            yield {
                "pid": os.getpid(),
                "array": np.full(SIZE, number),
                "tensors": [torch.full((2, SIZE), number), torch.full((1,), number)],
                "bytes": bytes([number % 251]) * 5000,
            }


class OnTheBus(Items):
    def __iter__(self) -> Iterator[np.ndarray]:
        for number in range(self._count):
            array = tb.empty(SIZE, "int64")
            array[:] = number
            yield array
            used = tb.participant().arena["used_bytes"]
            assert used < (self._count + 2) * array.nbytes, "there is a copy of each array"


def in_another_process(items: Any, context: str = "fork", **options: Any) -> Any:
    return pipeline.iterate_in_subprocess(
        lambda: items, arena=Arena(), mp_context=context, **options
    )


def number_of(item: dict[str, Any]) -> int:
    """The number of an item all of whose parts are intact."""
    array, (wide, small) = item["array"], item["tensors"]
    number = int(array[0])
    assert (array == number).all()
    assert wide.shape == (2, SIZE)
    assert (wide == number).all()
    assert int(small) == number
    assert bytes(item["bytes"]) == bytes([number % 251]) * 5000
    return number


def test_all_items_can_be_held_and_written_to() -> None:
    items = in_another_process(Items(20))
    held = list(items)
    held[0]["array"][:] = -1
    assert int(held[1]["array"][0]) == 1
    held[0]["array"][:] = 0
    again = list(items)  # in the same worker
    assert again[0]["pid"] == held[0]["pid"] != os.getpid()
    for each in (held, again):
        assert [number_of(item) for item in each] == list(range(20))
    items._shutdown()
    assert [number_of(item) for item in held] == list(range(20))


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_a_whole_pipeline_runs_in_a_new_process(context: str) -> None:
    config = (
        pipeline.PipelineBuilder()
        .add_source(Items(6))
        .aggregate(2)
        .add_sink(buffer_size=2)
        .get_config()
    )
    batches = pipeline.run_pipeline_in_subprocess(
        config, num_threads=1, arena=Arena(), mp_context=context
    )
    for _ in range(2):
        held = list(batches)
        assert [[number_of(item) for item in batch] for batch in held] == [[0, 1], [2, 3], [4, 5]]
    batches._shutdown()


def test_items_that_nobody_reads_are_dropped() -> None:
    items = in_another_process(Items(50), buffer_size=8)
    for _ in range(3):
        for number, item in enumerate(items):
            assert number_of(item) == number
            if number == 2:
                break
    assert [number_of(item) for item in items] == list(range(50))
    items._shutdown()


def test_an_array_in_memory_of_the_bus_is_not_copied() -> None:
    items = in_another_process(OnTheBus(8))
    assert [int(array[-1]) for array in items] == list(range(8))
    items._shutdown()


def test_what_a_killed_worker_sent_stays_and_its_memory_returns() -> None:
    items = in_another_process(Items(1000), timeout=20)
    arriving = iter(items)
    held = [next(arriving) for _ in range(5)]
    os.kill(held[0]["pid"], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        held.extend(arriving)
    assert [number_of(item) for item in held] == list(range(len(held)))
    held.clear()
    eventually(lambda: used_bytes() == 0)


def test_an_item_that_cannot_be_sent_is_an_error_and_leaves_nothing() -> None:
    items = in_another_process([{"array": np.zeros(SIZE), "code": lambda: 0}])
    with pytest.raises(RuntimeError, match="Failed to fetch"):
        list(items)
    eventually(lambda: used_bytes() == 0)
