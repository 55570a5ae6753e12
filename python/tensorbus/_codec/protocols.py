"""What the modules of the codec know of each other, and of message types, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import msgpack

from tensorbus._core import Memory, Outgoing
from tensorbus._tensors.library import Library


class Flattener(Protocol):
    """Takes one message apart: see `tensorbus._codec.fields`."""

    outgoing: Outgoing

    def lower(self, value: Any, depth: int = 0) -> Any: ...
    def record(self, name: str, *parts: Any, depth: int = 0) -> msgpack.Ext: ...
    @staticmethod
    def reference(index: int) -> msgpack.Ext: ...


class Restorer(Protocol):
    """Puts one message together again: see `tensorbus._codec.fields`."""

    library: Library | None
    types: Mapping[str, Plan]

    def memory(self, index: int) -> Memory: ...
    def own_indices(self, tensor: Any) -> Any: ...


class Plan(Protocol):
    """What is known of a message type: see `tensorbus.messages._plan`."""

    name: str
    names: frozenset[str]

    @property
    def definition(self) -> str: ...
    @property
    def types(self) -> Mapping[str, Plan]: ...
    def checked(self, message: Any) -> dict[str, Any]: ...
    def received(self, came: object, library: Library | None = None) -> Any: ...
