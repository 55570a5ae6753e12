"""Protocols for type checkers: of the codec's modules, and of message types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tensorbus._core import Memory, MessagePlan
from tensorbus._tensors.library import Library

# A record (its name and its parts, which are packed in turn), or the index of a tensor.
Lowered = tuple[Any, ...] | int


class Restorer(Protocol):
    """Decodes one message: see `tensorbus._codec.fields`."""

    library: Library | None
    types: Mapping[str, Plan]

    def memory(self, index: int) -> Memory: ...
    def own_indices(self, tensor: Any) -> Any: ...


class Plan(Protocol):
    """The plan of a message type: see `tensorbus.messages._plan`."""

    name: str
    names: frozenset[str]

    @property
    def core(self) -> MessagePlan: ...
    @property
    def definition(self) -> str: ...
    @property
    def types(self) -> Mapping[str, Plan]: ...
    def checked(self, message: Any) -> dict[str, Any]: ...
    def received(self, data: object, library: Library | None = None) -> Any: ...
