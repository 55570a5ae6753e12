"""The parts of a message that is exported: tensors for files, and other values for JSON."""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any

from tensorbus._codec.handle import Handle


class MessageParts:
    """A message without its tensors, and its tensors by name.

    >>> import numpy as np
    >>> parts = MessageParts({"image": np.zeros((2, 2, 3)), "encoding": "bgr8", "ids": (1, 2)})
    >>> parts.values
    {'image': {'tensor': 'image'}, 'encoding': 'bgr8', 'ids': [1, 2]}
    >>> [*parts.tensors], parts.encodings
    (['image'], {'image': 'bgr8'})
    """

    def __init__(self, data: Any) -> None:
        self.tensors: dict[str, Any] = {}
        """The tensors, by their paths in the message."""
        self.encodings: dict[str, object] = {}
        """The field `encoding` beside a tensor, by the tensor's name."""
        self.values = self._without_tensors(data, "", None)
        """The message for JSON; a tensor is `{"tensor": name}`."""

    def _without_tensors(self, value: Any, path: str, encoding: object) -> Any:
        import numpy as np

        if isinstance(value, np.ndarray) or type(value).__module__ == "torch":
            return {"tensor": self._add(value, path, encoding)}
        if isinstance(value, np.generic):
            return self._without_tensors(value.item(), path, encoding)
        if isinstance(value, dict):
            beside = value.get("encoding")
            return {
                str(key): self._without_tensors(item, _within(path, key), beside)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple, set, frozenset)):
            return [
                self._without_tensors(item, _within(path, index), encoding)
                for index, item in enumerate(value)
            ]
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {"base64": base64.b64encode(value).decode()}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Handle):
            return str(value)
        return repr(value)

    def _add(self, tensor: Any, path: str, encoding: object) -> str:
        name = unused(path or "data", self.tensors)
        self.tensors[name] = tensor
        if encoding is not None:
            self.encodings[name] = encoding
        return name


def _within(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def unused(name: str, used: Collection[str]) -> str:
    """The name, with a number appended if it is in use.

    >>> unused("a", ["a", "a_2"])
    'a_3'
    """
    found, number = name, 1
    while found in used:
        number += 1
        found = f"{name}_{number}"
    return found
