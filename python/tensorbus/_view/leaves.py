"""The values inside a message, by path."""

from __future__ import annotations

from collections.abc import Iterator
from reprlib import Repr
from typing import Any

from tensorbus._topics.preview import fields_of

_MAX_LEAVES = 256
_MAX_ITEMS = 32  # of a list
_MAX_DEPTH = 8
_short = Repr()
_short.maxstring = _short.maxother = 120

Leaves = dict[str, Any]


def leaves_of(message: Any) -> Leaves:
    """The values of a message by path, in their order; at most 256.

    >>> leaves_of({"id": 7, "poses": [1.5, {"x": 2.0}]})
    {'id': 7, 'poses[0]': 1.5, 'poses[1].x': 2.0}
    >>> leaves_of(3)
    {'data': 3}
    """
    found: Leaves = {}
    for path, value in _walk("", message, 0):
        found[path or "data"] = value
        if len(found) == _MAX_LEAVES:
            break
    return found


def _walk(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    children = _children(value) if depth < _MAX_DEPTH else None
    if not children:
        yield path, value
        return
    for name, child in children:
        joined = f"{path}{name}" if name.startswith("[") or not path else f"{path}.{name}"
        yield from _walk(joined, child, depth + 1)


def _children(value: Any) -> list[tuple[str, Any]] | None:
    """The parts of a value by name; None if it has none."""
    if (found := fields_of(value)) is not None:
        return [(str(name), item) for name, item in found.items()]
    if isinstance(value, list | tuple):
        return [(f"[{index}]", item) for index, item in enumerate(value[:_MAX_ITEMS])]
    return None


def is_array(value: Any) -> bool:
    """True for values with dtype, shape and `__array__`, for example tensors."""
    return hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "__array__")


def text_of(value: Any) -> str:
    """A value on one line.

    >>> import numpy as np
    >>> text_of(np.zeros((2, 3), "int16")), text_of("on"), text_of(b"raw")
    ('int16 (2, 3)', "'on'", "b'raw'")
    """
    if is_array(value) and value.shape != ():
        return f"{value.dtype} {tuple(value.shape)}"
    return _short.repr(value)
