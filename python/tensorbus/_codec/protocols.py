"""What the modules of the codec know of each other, and of message types, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tensorbus._core import Memory, MessagePlan
from tensorbus._tensors.library import Library

# A record: its name, and parts that are packed in turn. Or the index of a tensor.
Lowered = tuple[Any, ...] | int


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
    def core(self) -> MessagePlan: ...
    @property
    def definition(self) -> str: ...
    @property
    def types(self) -> Mapping[str, Plan]: ...
    def checked(self, message: Any) -> dict[str, Any]: ...
    def received(self, came: object, library: Library | None = None) -> Any: ...
