"""Worker pools whose function gets all tensors in one library."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, unused
from support.queues.pools import QUICK

# Only a full batch, or the end of the pool, ends the wait for further items.
FULL: Any = {"workers": 1, "batch": 3, "max_wait": PATIENCE, **QUICK}
KINDS = {"torch": "Tensor torch.float", "numpy": "ndarray float"}


def described(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: described(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(described(each) for each in value)
    if hasattr(value, "shape"):
        return f"{type(value).__name__} {value.dtype!s} {tuple(value.shape)}"
    return value


def describe(batch: Any) -> list[Any]:
    return [described(batch)] * 3


def same(batch: Any) -> Any:
    return batch


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_items_of_both_libraries_are_stacked(library: Any, torch: ModuleType) -> None:
    kind = f"{KINDS[library]}32 (3, 2, 5)"
    items = [torch.ones(2, 5), np.ones((2, 5), "float32"), torch.zeros(5, 2).T]
    with tb.WorkerPool(describe, library=library, **FULL) as pool:
        for ordered in (items, items[::-1]):
            assert pool.map(ordered) == [kind] * 3
        dicts = [{"x": item, "id": number} for number, item in enumerate(items)]
        assert pool.map(dicts)[0] == {"x": kind, "id": [0, 1, 2]}
        assert pool.map([(item,) for item in items])[0] == (kind,)
    unused()


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_each_item_has_its_own_values_and_the_result_of_its_row(
    library: Any, torch: ModuleType
) -> None:
    mine = np.full((2, 5), 2, "float32")
    with tb.WorkerPool(same, library=library, **FULL) as pool:
        results = pool.map([torch.ones(2, 5), mine, torch.ones(2, 5)])
        assert [float(result.sum()) for result in results] == [10, 20, 10]
        results[1][:] = 7
        assert (mine == 2).all()
        assert float(results[0].sum()) == 10


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_other_dtypes_and_shapes_are_a_list_in_this_library(
    library: Any, torch: ModuleType
) -> None:
    kind = KINDS[library]
    with tb.WorkerPool(describe, library=library, **FULL) as pool:
        items = [np.ones(2), torch.ones(2), np.ones(3)]
        assert pool.map(items)[0] == [f"{kind}64 (2,)", f"{kind}32 (2,)", f"{kind}64 (3,)"]


def test_a_tensor_that_numpy_cannot_have_is_stacked_with_its_like(torch: ModuleType) -> None:
    half = torch.ones(2, dtype=torch.bfloat16)
    graded = torch.ones(2, requires_grad=True)
    single = np.ones(2, "float32")
    with tb.WorkerPool(describe, library="torch", **FULL) as pool:
        assert pool.map([half] * 3)[0] == "Tensor torch.bfloat16 (3, 2)"
        for odd, dtype in ((half, "bfloat16"), (graded, "float32")):
            middle = f"Tensor torch.{dtype} (2,)"
            assert pool.map([single, odd, single])[0] == [
                "Tensor torch.float32 (2,)",
                middle,
                "Tensor torch.float32 (2,)",
            ]


def test_without_a_library_they_are_a_list(torch: ModuleType) -> None:
    with tb.WorkerPool(describe, **FULL) as pool:
        items = [torch.ones(2), np.ones(2, "float32"), torch.ones(2)]
        tensor, array = "Tensor torch.float32 (2,)", "ndarray float32 (2,)"
        assert pool.map(items)[0] == [tensor, array, tensor]


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_the_library_holds_without_batches_and_for_calls_and_chunks(
    library: Any, torch: ModuleType
) -> None:
    items = [np.ones(2), torch.ones(2, dtype=torch.float64)]
    expected = [f"{KINDS[library]}64 (2,)"] * 2
    options: Any = {"workers": 1, "library": library, **QUICK}
    with tb.WorkerPool(described, **options) as pool:
        assert pool.map(items) == pool.map(items, chunksize=2) == expected
        assert pool.map([{"x": items}]) == [{"x": expected}]
    with tb.WorkerPool(**options) as executor:
        assert list(executor.map(described, items)) == expected


def test_results_keep_their_library(torch: ModuleType) -> None:
    with tb.WorkerPool(torch.from_numpy, workers=1, library="numpy", **QUICK) as pool:
        (result,) = pool.map([torch.ones(2)])
        assert isinstance(result, torch.Tensor)


def test_an_unknown_library_is_refused() -> None:
    options: Any = {"library": "tensorflow", **QUICK}
    with pytest.raises(tb.InvalidArgument, match="library='tensorflow'"):
        tb.WorkerPool(described, workers=1, **options)
