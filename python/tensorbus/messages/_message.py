"""The base of message types."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._codec.typed import LoweredMessage
from tensorbus.messages import _packed, _registry
from tensorbus.messages._annotations import names_in
from tensorbus.messages._plan import Plan, check_is_dataclass, plan_of

if TYPE_CHECKING:
    from typing_extensions import Self

_OURS = "tensorbus.messages."


@public
class MessageHeader(NamedTuple):
    """The header of a message in bytes: see `Message.to_bytes`."""

    fingerprint: int
    """The fingerprint of the type that the writer had."""
    timestamp_ns: int
    """The wall clock of the writer, in nanoseconds since 1970."""
    sequence: int
    """The number that `to_bytes` was given; by default 0."""


@public
class Message:
    """The base of message types, which are dataclasses.

    A type has a name, by default its module and class, and a fingerprint of its name and fields.
    Both are the same in every process, and in C++. See docs/messages.md.

    >>> from dataclasses import dataclass, field
    >>> import numpy as np
    >>> @dataclass
    ... class Detection(Message, name="robot.Detection"):
    ...     label: str
    ...     score: float
    ...     boxes: list[np.ndarray] = field(default_factory=list)
    >>> print(Detection.definition())
    robot.Detection
    boxes: list<array> = ...
    label: str
    score: float
    >>> Detection("cup", "high").validate()
    Traceback (most recent call last):
    tensorbus.MessageError: Detection.score: expected float, got str
    """

    __slots__ = ()

    _message_name: ClassVar[str]
    _message_names: ClassVar[dict[str, Any]]
    # False in a base class: annotations are not enforced; any value that can be sent is accepted.
    _message_checked: ClassVar[bool] = True

    def __init_subclass__(cls, *, name: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if (
            "_message_name" not in cls.__dict__
        ):  # present when @dataclass(slots=True) copies a class
            cls._message_name = _default_name(cls) if name is None else _checked_name(name)
            cls._message_names = names_in(cls, sys._getframe(1))
        _registry.add(cls)

    def __init__(self, *_: object, **__: object) -> None:
        check_is_dataclass(type(self))
        raise InvalidArgument(f"{type(self).__qualname__} is a dataclass without an __init__")

    @classmethod
    def _message_plan_of(cls) -> Plan:
        return plan_of(cls)

    @classmethod
    def definition(cls) -> str:
        """The type's name, and its fields with their types; `= ...` marks a default.

        Raises:
            MessageError: the class is not a dataclass.
            Unsupported: a field's type cannot be sent; the text names it.
        """
        return plan_of(cls).definition

    @classmethod
    def fingerprint(cls) -> int:
        """A 64-bit hash of the definition without the defaults; never 0."""
        return plan_of(cls).fingerprint

    def validate(self) -> None:
        """Checks each field against its annotation, as publishing does.

        Raises:
            MessageError: a value has another type; the text names its place and both types.
        """
        plan_of(type(self)).checked(self)

    def to_bytes(self, *, timestamp_ns: int | None = None, sequence: int = 0) -> bytes:
        """The message with its arrays and tensors as bytes, for a file or another transport.

        Args:
            timestamp_ns: for the header; by default the wall clock.
            sequence: for the header.

        Raises:
            MessageError: a field has another type than declared.
            Unsupported: a value in the message cannot be converted to bytes.
        """
        return _packed.pack(self, timestamp_ns, sequence)

    @classmethod
    def from_bytes(cls, data: bytes) -> tuple[Self, MessageHeader]:
        """The message in bytes that `to_bytes` made, possibly of another version of the class.

        Its arrays and tensors are writable copies.

        Args:
            data: the bytes; they may come from an untrusted source.

        Returns:
            The message and its header.

        Raises:
            ProtocolError: the bytes are truncated or malformed.
            MessageError: the message has another type, or a field does not match.
            Unsupported: it needs a library that is not installed, or a nested message whose class
                this process has not imported.

        >>> from tensorbus import PoseMessage, StringMessage
        >>> message, header = StringMessage.from_bytes(StringMessage("hello").to_bytes())
        >>> message, header.sequence
        (StringMessage(data='hello'), 0)
        """
        message, header = _packed.unpack(data, cls)
        return message, MessageHeader(*header)

    @staticmethod
    def decode(data: bytes) -> tuple[Message, MessageHeader]:
        """The message in these bytes, of any message class that this process has imported.

        Returns:
            The message and its header.

        Raises:
            ProtocolError, MessageError: see `from_bytes`.
            Unsupported: this process has no class of the type; the text names the type.
        """
        message, header = _packed.unpack(data, None)
        return message, MessageHeader(*header)


def lower_message(message: Message) -> LoweredMessage:
    """Lowers a message that is inside another message, or that is published without a type.

    Raises:
        MessageError: a field has another type than declared.
    """
    plan = plan_of(type(message))
    return LoweredMessage(plan.name, plan.checked(message))


def _default_name(cls: type) -> str:
    """The module and qualified name, without `<locals>`; for standard messages `tensorbus.`."""
    module = "tensorbus" if cls.__module__.startswith(_OURS) else cls.__module__
    return f"{module}.{cls.__qualname__.replace('<locals>.', '')}"


def _checked_name(name: object) -> str:
    if isinstance(name, str) and all(part.isidentifier() for part in name.split(".")):
        return name
    raise InvalidArgument(f'name={name!r}: expected identifiers with dots, as in "robot.Pose"')
