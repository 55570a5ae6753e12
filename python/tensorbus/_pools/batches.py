"""Batches: many items as one value for a function, and its value as one result for each item."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorbus._base.arguments import seconds, whole_number
from tensorbus._base.errors import InvalidArgument, Unsupported
from tensorbus._core import Memory, Participant, empty
from tensorbus._pools.answers import Failed
from tensorbus._tensors.allocation import device_of, tensor_in
from tensorbus._tensors.library import library_of

_EXPECTED = (
    "a tensor or an array with a row for each item, a dict or a tuple of these, or a list with a "
    "result for each item"
)


@dataclass
class Limits:
    """How large a batch may become, and how long it waits for further items.

    Args:
        size: the maximum of items; None: the function gets single items.
        max_wait: seconds from the submission of the first item.

    Raises:
        InvalidArgument: a number is out of range, or `max_wait` is given without a size.
    """

    size: int | None
    max_wait: float

    def __post_init__(self) -> None:
        if self.size is not None:
            self.size = whole_number("batch", self.size, low=1)
        limit = seconds("max_wait", self.max_wait)
        if limit is None:
            raise InvalidArgument(f"max_wait={self.max_wait!r}: expected a number of seconds")
        if self.size is None and limit > 0:
            raise InvalidArgument(
                "max_wait: only a batch waits for further items: give batch=, too"
            )
        self.max_wait = limit


@dataclass
class Batch:
    """Several items for one call of the worker's function."""

    value: Any  # see `stacked`
    count: int


def stacked(items: list[Any], home: Participant, *, mixed: bool = False) -> Any:
    """The items as one value.

    Tensors, or arrays, of one shape, dtype and device become one of shape (n, *shape), in one block
    of shared memory: each item is copied once. A single item is not copied, but gets a dimension.
    Dicts with the same keys, and tuples of the same length, become one dict or tuple, value by
    value. All others stay a list.

    Args:
        items: at least one item.
        home: the participant in whose memory the block is made.
        mixed: tensors of PyTorch are stacked with arrays of NumPy, too, as arrays: the receiver
            asks for a library, whatever arrives.

    Raises:
        OutOfMemory: there was no room for the block.
    """
    if mixed:
        items = _as_arrays(items)
    first = items[0]
    kind = type(first)
    if kind is dict:
        if first and all(type(each) is dict and each.keys() == first.keys() for each in items):
            return {key: stacked([each[key] for each in items], home, mixed=mixed) for key in first}
    elif kind is tuple or (isinstance(first, tuple) and hasattr(kind, "_make")):
        if first and all(type(each) is kind and len(each) == len(first) for each in items):
            parts = zip(*items, strict=True)
            return _like(first, [stacked([*part], home, mixed=mixed) for part in parts])
    elif (stack := _stacker_of(first)) is not None and all(_fits(each, first) for each in items):
        try:
            if len(items) == 1:
                return first[None]
            block = _block_for(items, home)
        except (Unsupported, IndexError, ValueError):
            return items  # memory of a GPU that cannot be shared, or too many dimensions
        stack(items, block)
        return block
    return items


def _as_arrays(items: list[Any]) -> list[Any]:
    """The items; all as arrays of the same memory if some are arrays and the others can be."""
    if {library_of(each) for each in items} != {"numpy", "torch"}:
        return items
    if any(_stacker_of(each) is None for each in items):
        return items
    try:
        return [each.numpy() if library_of(each) == "torch" else each for each in items]
    except (TypeError, RuntimeError):  # a dtype that NumPy lacks, or a GPU
        return items


def _block_for(items: list[Any], home: Participant) -> Any:
    def allocate(name: str, sizes: list[int], ordinal: int) -> Memory:
        return empty(name, sizes, False, home, ordinal)

    first = items[0]
    return tensor_in(allocate, (len(items), *first.shape), first.dtype, None, device_of(first))


def _like(example: tuple[Any, ...], values: list[Any]) -> tuple[Any, ...]:
    """A tuple of these values; a named tuple if the example is one."""
    make = getattr(type(example), "_make", tuple)
    made: tuple[Any, ...] = make(values)
    return made


def _stacker_of(item: Any) -> Callable[[list[Any], Any], object] | None:
    """The function that copies items like this one into a block; None: they are not stacked."""
    library = library_of(item)
    if library == "numpy" and type(item) is sys.modules["numpy"].ndarray:
        return None if item.dtype.hasobject else _copy_arrays
    if library == "torch" and type(item) is sys.modules["torch"].Tensor:
        return _copy_tensors if _is_plain(item) else None
    return None


def _is_plain(tensor: Any) -> bool:
    """Whether a torch tensor is no more than its elements, in memory that can be shared."""
    return (
        tensor.device.type in ("cpu", "cuda")
        and tensor.layout is sys.modules["torch"].strided
        and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg())
        and not (tensor.is_quantized or tensor.is_nested)
    )


def _fits(item: Any, first: Any) -> bool:
    return (
        type(item) is type(first)
        and item.shape == first.shape
        and item.dtype == first.dtype
        and device_of(item) == device_of(first)
        and (library_of(item) == "numpy" or _is_plain(item))
    )


def _copy_arrays(items: list[Any], block: Any) -> None:
    for row, item in enumerate(items):
        block[row] = item


def _copy_tensors(items: list[Any], block: Any) -> None:
    torch = sys.modules["torch"]
    with torch.no_grad():
        torch.stack(items, out=block)


def checked(value: Any, count: int, failed: Callable[[BaseException], Any]) -> Any:
    """The value of a function that got a batch, ready to be sent, and to be split by `row`.

    Exceptions in it are replaced by what `failed` returns. Rows that share memory are copied apart,
    so that a write to one result changes no other.

    Raises:
        InvalidArgument: the value does not have a result for each of the `count` items.
    """
    if isinstance(value, dict) and value:
        return {key: checked(each, count, failed) for key, each in value.items()}
    if isinstance(value, tuple) and value:
        return _like(value, [checked(each, count, failed) for each in value])
    if isinstance(value, list):
        _check_count(len(value), "results", count)
        return [failed(each) if isinstance(each, BaseException) else each for each in value]
    if library_of(value) is None or value.ndim == 0:
        raise InvalidArgument(f"the function returned {_described(value)} for a batch: {_EXPECTED}")
    _check_count(value.shape[0], "rows", count)
    return _with_separate_rows(value)


def _check_count(given: int, what: str, count: int) -> None:
    if given != count:
        raise InvalidArgument(
            f"the function returned {given} {what} for a batch of {count} items: expected "
            f"{_EXPECTED}"
        )


def _described(value: Any) -> str:
    if value is None:
        return "None"
    empty = "an empty " if isinstance(value, dict | tuple) else "a "
    return f"{empty}{type(value).__name__}"


def _with_separate_rows(tensor: Any) -> Any:
    """The tensor; a contiguous copy if elements may share memory, as after `expand`."""
    if library_of(tensor) == "numpy":
        steps, unit = tensor.strides, tensor.itemsize
    elif tensor.layout is sys.modules["torch"].strided:
        steps, unit = tensor.stride(), 1
    else:
        return tensor
    extent = unit
    for step, size in sorted((abs(s), n) for s, n in zip(steps, tensor.shape, strict=True)):
        if size > 1:
            if step < extent:
                return tensor.copy() if library_of(tensor) == "numpy" else tensor.contiguous()
            extent += step * (size - 1)
    return tensor


def row(value: Any, index: int) -> Any:
    """The result of one item, from a value that was `checked`.

    Raises:
        BaseException: an exception is among the parts of this result.
    """
    if isinstance(value, dict):
        return {key: row(each, index) for key, each in value.items()}
    if isinstance(value, tuple):
        return _like(value, [row(each, index) for each in value])
    part = value[index]
    if isinstance(value, list):
        if isinstance(part, Failed):
            raise part.error()
        if isinstance(part, BaseException):
            raise part
    return part
