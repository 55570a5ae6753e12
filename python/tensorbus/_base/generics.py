"""The type parameters of public classes, for type checkers; the default of each is `Any`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)  # the messages of a topic, the items of a queue
    Request = TypeVar("Request", default=Any)
    Reply = TypeVar("Reply", default=Any)
    Item = TypeVar("Item", default=Any)
    Result = TypeVar("Result", default=Any)
    Made = TypeVar("Made", covariant=True)
else:
    from typing import TypeVar

    T = TypeVar("T")
    Request = TypeVar("Request")
    Reply = TypeVar("Reply")
    Item = TypeVar("Item")
    Result = TypeVar("Result")
    Made = TypeVar("Made", covariant=True)


class MessageClass(Protocol[Made]):
    """A class that inherits from `Message`, recognised by a method; `type[T]` accepts any class."""

    def from_bytes(self, data: bytes) -> tuple[Made, Any]: ...
