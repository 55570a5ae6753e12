"""Messages with the data of samples in place of the samples."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from typing import Any

from tensorbus._base.errors import Unsupported
from tensorbus._codec.received import Received
from tensorbus._codec.records import encoded
from tensorbus._codec.typed import LoweredMessage

_UNFINISHED = object()
_MAX_NESTING = 60  # of the packer, which refuses a message that is nested deeper


def without_samples(message: Any) -> Any:
    """The message with the data of each sample in it; its containers are copies.

    Raises:
        Unsupported: the data of a sample in a set, or of a key, has no hash.
        Error: `Sample.data` raised it.
    """
    return _unwrapped(message, 0, {})


def _unwrapped(value: Any, depth: int, begun: dict[int, tuple[Any, Any]]) -> Any:
    """The value without samples. `begun`: by its `id`, each container and its copy."""
    if isinstance(value, Received):
        return value.data
    if depth == _MAX_NESTING:
        return value
    if id(value) not in begun:
        begun[id(value)] = value, _UNFINISHED
        begun[id(value)] = value, _copied(value, lambda item: _unwrapped(item, depth + 1, begun))
    copied = begun[id(value)][1]
    if copied is _UNFINISHED:
        raise Unsupported("data: a container inside itself")
    return copied


def _copied(value: Any, unwrap: Callable[[Any], Any]) -> Any:
    kind = type(value)
    if kind is LoweredMessage:
        return value._replace(fields=unwrap(value.fields))
    if kind is list or kind is tuple:
        return kind([unwrap(item) for item in value])
    if kind in (dict, OrderedDict):
        filled = copy(value)  # with the attributes of a state_dict()
        filled.clear()
        filled.update(_hashed(dict, [(unwrap(key), unwrap(item)) for key, item in value.items()]))
        return filled
    if kind in (set, frozenset):
        return _hashed(kind, [unwrap(item) for item in value])
    message = encoded(value)
    return value if message is None else unwrap(message)


def _hashed(kind: type, items: list[Any]) -> Any:
    try:
        return kind(items)
    except TypeError as error:
        raise Unsupported(f"data: a sample in a set or a key: {error}") from None
