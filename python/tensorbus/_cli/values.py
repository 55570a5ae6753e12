"""Messages as text, as JSON and as rows of a table. A tensor is shown by its figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from reprlib import Repr
from typing import Any

from tensorbus._base.errors import Unsupported
from tensorbus._base.html import ROWS
from tensorbus._codec.handle import Handle
from tensorbus._inspection.units import shown
from tensorbus._tensors import numpy_arrays
from tensorbus._tensors.library import Library
from tensorbus._topics.preview import fields_of, is_tensor
from tensorbus._topics.sample import Sample, sample_of

_MAX_FIRST = 8  # elements that are shown of a large tensor
_MAX_WHOLE = 16  # elements of a tensor that is shown in full
_short = Repr()
_short.maxstring = _short.maxother = 120

# NumPy, if it is installed, also for tensors of PyTorch, which takes seconds to import.
LIBRARY: Library = "numpy" if find_spec("numpy") else "dlpack"


class NotThere(Exception):
    """A message has no such field."""


@dataclass(frozen=True)
class Figures:
    """Figures of a tensor. On a GPU, or without NumPy, only the first three are known."""

    dtype: str
    shape: tuple[int, ...]
    device: str
    minimum: float | None = None
    """Of the elements that are not NaN, like `mean` and `maximum`."""
    mean: float | None = None
    maximum: float | None = None
    nan_count: int | None = None
    first: tuple[Any, ...] = ()
    """All elements of a small tensor; of a large tensor, the first elements."""


def data_of(sample: Sample[Any]) -> Any:
    """The message. If NumPy lacks the type of a tensor, all tensors are plain memory.

    If only the tensors' own library can read the message, a text with the reason.
    """
    try:
        return sample.data
    except Unsupported:
        pass
    try:
        return sample_of(sample._core, "dlpack", None).data
    except Unsupported as error:
        return f"{sample._shown_tensors()}: {error}"


def field_of(data: Any, path: str) -> Any:
    """A field of a message, by a path of names and indices with dots between them.

    Raises:
        NotThere: the message has no such field.

    >>> field_of({"poses": [{"x": 1.5}]}, "poses.0.x")
    1.5
    """
    for name in path.split("."):
        found = fields_of(data)
        try:
            if found is not None:
                data = found[name]
            elif isinstance(data, list | tuple):
                data = data[int(name)]
            else:
                raise NotThere(path)
        except (LookupError, ValueError):
            raise NotThere(path) from None
    return data


def figures_of(tensor: Any) -> Figures:
    """Figures of a tensor; in main memory, with its values."""
    device = str(getattr(tensor, "device", "cpu"))
    seen = Figures(str(tensor.dtype), tuple(tensor.shape), device)
    if find_spec("numpy") is None or device != "cpu":
        return seen
    np = numpy_arrays.learn()
    array = np.asarray(tensor)
    if str(array.dtype) != seen.dtype:  # plain memory of a dtype that NumPy lacks
        return seen
    if array.dtype.kind == "V" and array.dtype.names is None:  # of ml_dtypes: bfloat16 and others
        array = array.astype(np.float32)
    few = array.size <= _MAX_WHOLE
    first = array.flat[: _MAX_WHOLE if few else _MAX_FIRST].tolist()
    seen = Figures(seen.dtype, seen.shape, device, first=tuple(first))
    repeats = array.nbytes > numpy_arrays.span_of(array)  # strides of 0: its size has no bound
    if array.dtype.kind not in "biuf" or array.size == 0 or repeats:
        return seen
    numbers = array
    nan_count = 0
    if array.dtype.kind == "f" and (nan_count := int(np.isnan(array).sum())):
        numbers = array[~np.isnan(array)]
    if numbers.size == 0:
        return Figures(seen.dtype, seen.shape, device, nan_count=nan_count, first=seen.first)
    return Figures(
        seen.dtype,
        seen.shape,
        device,
        float(numbers.min()),
        float(numbers.mean(dtype=np.float64)),
        float(numbers.max()),
        nan_count,
        seen.first,
    )


def tensor_text(figures: Figures) -> str:
    """A tensor's figures on one line.

    >>> tensor_text(Figures("uint8", (480, 640), "cpu", 0, 117.25, 255, 0, (1, 2)))
    'uint8 (480, 640) on cpu, min 0, mean 117.25, max 255, 0 NaN: 1 2 ...'
    """
    parts = [f"{figures.dtype} {figures.shape} on {figures.device}"]
    if figures.minimum is not None:
        numbers = {"min": figures.minimum, "mean": figures.mean, "max": figures.maximum}
        parts += [f"{name} {value:.6g}" for name, value in numbers.items()]
    if figures.nan_count is not None:
        parts.append(f"{figures.nan_count} NaN")
    text = ", ".join(parts)
    if not figures.first:
        return text
    values = " ".join(
        f"{value:.6g}" if isinstance(value, float) else str(value) for value in figures.first
    )
    return f"{text}: {values}{' ...' if math.prod(figures.shape) > len(figures.first) else ''}"


def lines_of(data: Any, name: str = "", indent: str = "") -> Iterator[str]:
    """A message as text, one line for each value."""
    label = f"{indent}{shown(name)}: " if name else indent
    found = fields_of(data)
    if found is None and isinstance(data, list | tuple) and any(map(_is_inner, data)):
        found = {str(index): value for index, value in enumerate(data)}
    if found is None:
        yield label + value_text(data)
        return
    if name:
        yield label.rstrip()
        indent += "  "
    for key, value in islice(found.items(), ROWS):
        yield from lines_of(value, str(key), indent)
    if len(found) > ROWS:
        yield f"{indent}... {len(found) - ROWS} more"


def _is_inner(value: Any) -> bool:
    return is_tensor(value) or isinstance(value, list | tuple) or fields_of(value) is not None


def value_text(value: Any) -> str:
    """A value without fields, on one line."""
    return tensor_text(figures_of(value)) if is_tensor(value) else shown(_short.repr(value))


def json_of(data: Any) -> Any:
    """A message for `print_record`. Tensors become their figures."""
    found = fields_of(data)
    if found is not None:
        return {str(name): json_of(value) for name, value in found.items()}
    if is_tensor(data):
        figures = figures_of(data)
        return {
            "dtype": figures.dtype,
            "shape": figures.shape,
            "device": figures.device,
            "min": figures.minimum,
            "mean": figures.mean,
            "max": figures.maximum,
            "nan_count": figures.nan_count,
            "first": [json_of(value) for value in figures.first],
        }
    if isinstance(data, list | tuple | set | frozenset):
        return [json_of(value) for value in data]
    if isinstance(data, Handle):
        return str(data)
    return data if isinstance(data, str | int | float | None) else _short.repr(data)


def cells_of(data: Any, name: str = "") -> Mapping[str, Any]:
    """A message as a row of a table: each value, and each element of a small tensor, by its path.

    >>> cells_of({"id": 7, "pose": [1.5, 2.0]})
    {'id': 7, 'pose.0': 1.5, 'pose.1': 2.0}
    """
    found = fields_of(data)
    if found is None and is_tensor(data):
        figures = figures_of(data)
        if len(figures.first) == math.prod(figures.shape):
            found = dict(enumerate(figures.first))
        else:
            found = {"min": figures.minimum, "mean": figures.mean, "max": figures.maximum}
            found["nan_count"] = figures.nan_count
    if found is None and isinstance(data, list | tuple):
        found = dict(enumerate(data))
    if found is None:
        return {name or "data": data}
    cells: dict[str, Any] = {}
    for key, value in found.items():
        cells.update(cells_of(value, f"{name}.{key}" if name else str(key)))
    return cells
