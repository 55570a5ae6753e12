"""A message as a tree: its tensors beside it, the rest as MessagePack.

Tensors become extension 1 (their index), tuples extension 2 (a MessagePack array), so that a tuple
arrives as a tuple. Nothing is ever pickled, and nothing is silently turned into something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import msgpack

from tensorbus._errors import Unsupported
from tensorbus._tensors import Library, library_of

_TENSOR = 1
_TUPLE = 2
_LEAVES = frozenset({type(None), bool, int, float, str, bytes})
_KEYS = frozenset({type(None), bool, int, float, str, bytes})
_MAX_DEPTH = 60

_encode = msgpack.Encoder().encode


class Flattener:
    """Takes the tensors out of a message.

    After `flatten(data)`, `tensors` holds them in order, and the result is the MessagePack of the
    rest; empty if the message is nothing but one tensor.
    """

    def __init__(self) -> None:
        self.tensors: list[tuple[Any, Library]] = []

    def flatten(self, data: object) -> bytes:
        library = library_of(data)
        if library is not None:
            self.tensors.append((data, library))
            return b""
        return self._encoded(self._lower(data, "data", 0), "data")

    def _lower(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        if kind in _LEAVES:
            return value
        if depth >= _MAX_DEPTH:
            raise Unsupported(f"{path}: nested deeper than {_MAX_DEPTH} levels")
        if kind is dict:
            for key in value:
                if type(key) not in _KEYS:
                    raise Unsupported(f"{path}: {type(key).__name__} cannot be a key")
            return {
                key: self._lower(item, f"{path}[{key!r}]", depth + 1) for key, item in value.items()
            }
        if kind is list:
            return [self._lower(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
        if kind is tuple:
            items = [self._lower(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
            return msgpack.Ext(_TUPLE, self._encoded(items, path))
        library = library_of(value)
        if library is not None:
            self.tensors.append((value, library))
            index = len(self.tensors) - 1
            return msgpack.Ext(_TENSOR, index.to_bytes(4, "little"))
        raise Unsupported(
            f"{path}: {kind.__module__}.{kind.__qualname__} cannot travel; tensors, dict, list, "
            "tuple, str, bytes, int, float, bool and None can"
        )

    def _encoded(self, value: object, path: str) -> bytes:
        try:
            return _encode(value)
        except (OverflowError, UnicodeEncodeError) as error:
            raise Unsupported(f"{path}: {error}") from None


def unflatten(fields: bytes, tensor: Callable[[int], Any], count: int) -> Any:
    """The message that was flattened; `tensor(i)` is its i-th of `count` tensors."""
    if not fields:
        return tensor(0) if count == 1 else [tensor(i) for i in range(count)]
    return _Unflattener(tensor).decode(fields)


class _Unflattener:
    """Not two closures: their cycle would keep the tensors until the garbage collector runs."""

    def __init__(self, tensor: Callable[[int], Any]) -> None:
        self._tensor = tensor

    def decode(self, fields: bytes | memoryview) -> Any:
        return msgpack.decode(fields, ext_hook=self._raised)

    def _raised(self, code: int, payload: memoryview) -> Any:
        if code == _TENSOR:
            return self._tensor(int.from_bytes(payload, "little"))
        if code == _TUPLE:
            return tuple(self.decode(payload))
        return msgpack.Ext(code, bytes(payload))
