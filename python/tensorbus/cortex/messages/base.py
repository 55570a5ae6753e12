"""Cortex's base class of messages."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import struct
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from tensorbus._base.errors import InvalidArgument, TypeMismatch, Unsupported
from tensorbus.messages import Message as Ours
from tensorbus.messages import MessageType as OurTypes
from tensorbus.messages._packed import fingerprint_in

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Message", "MessageFingerprintError", "MessageHeader", "MessageType"]

_HEADER = struct.Struct(">QQQ")

# Cortex's class of each standard message, by the class in `tensorbus` and by fingerprint, which is
# the same for both classes.
STANDARD: dict[type[Ours], type[Message]] = {}
STANDARD_BY_FINGERPRINT: dict[int, type[Message]] = {}


class MessageFingerprintError(TypeMismatch, RuntimeError):
    """A publisher's messages have another type; the text shows both types."""


MessageFingerprintError.__module__ = "tensorbus.cortex"


@dataclasses.dataclass(slots=True)
class MessageHeader:
    """The header of a received message.

    >>> MessageHeader.from_bytes(MessageHeader(1, 2, 3).to_bytes()).sequence
    3
    """

    fingerprint: int
    """The fingerprint of the type that the publisher had."""
    timestamp_ns: int
    """The wall clock when it was published, in nanoseconds since 1970."""
    sequence: int
    """The number of the message; each publisher counts from 0."""
    topic: str = ""
    publisher: str = ""
    """Identifies the publisher in the topic."""

    def to_bytes(self) -> bytes:
        """Fingerprint, timestamp and sequence as three big-endian u64."""
        return _HEADER.pack(self.fingerprint, self.timestamp_ns, self.sequence)

    @classmethod
    def from_bytes(cls, data: bytes) -> MessageHeader:
        """The header in the bytes of `to_bytes`.

        Raises:
            struct.error: there are fewer than 24 bytes.
        """
        return cls(*_HEADER.unpack_from(data))

    @classmethod
    def size(cls) -> int:
        """The size of `to_bytes`: 24 bytes."""
        return _HEADER.size


class Message(Ours):
    """A `tensorbus.Message` whose fields accept any value: annotations are not checked.

    >>> @dataclasses.dataclass
    ... class Speed(Message):
    ...     value: int = 0
    >>> Speed.from_bytes(Speed(1.5).to_bytes())[0].value
    1.5
    """

    __slots__ = ()

    _message_checked = False
    _sequences: ClassVar[WeakKeyDictionary[type, Iterator[int]]] = WeakKeyDictionary()

    def to_bytes(self, sequence: int | None = None, *, timestamp_ns: int | None = None) -> bytes:
        """See `tensorbus.Message.to_bytes`.

        Args:
            sequence: for the header; by default a count for each class.
            timestamp_ns: for the header; by default the wall clock.
        """
        if sequence is None:
            sequence = next(self._sequences.setdefault(type(self), itertools.count()))
        plain = self if (found := detached(self)) is None else found
        return Ours.to_bytes(plain, timestamp_ns=timestamp_ns, sequence=sequence)

    @classmethod
    def from_bytes(cls, data: bytes) -> tuple[Self, MessageHeader]:  # type: ignore[override]
        """See `tensorbus.Message.from_bytes`."""
        message, header = super().from_bytes(data)
        return message, MessageHeader(*header)

    @staticmethod
    def decode(data: bytes) -> tuple[Ours, MessageHeader]:  # type: ignore[override]
        """See `tensorbus.Message.decode`.

        Raises:
            ValueError: this process has no class of the message's type.
        """
        standard = STANDARD_BY_FINGERPRINT.get(fingerprint_in(data))
        if standard is not None:
            return standard.from_bytes(data)
        try:
            message, header = Ours.decode(data)
        except Unsupported as error:
            raise InvalidArgument(str(error)) from error
        return message, MessageHeader(*header)


class MessageType(OurTypes):
    """The message types of this process: see `tensorbus.MessageType`."""

    @staticmethod
    def get(fingerprint: int) -> type[Ours] | None:
        """The class with this fingerprint; None if this process has none."""
        found = OurTypes.get(fingerprint)
        return None if found is None else STANDARD.get(found, found)

    @staticmethod
    def get_all() -> dict[int, type[Ours]]:
        """All classes, by fingerprint."""
        return {number: STANDARD.get(cls, cls) for number, cls in OurTypes.get_all().items()}


def detached(message: Ours) -> Ours | None:
    """A copy whose tensors have no gradient history; None if the message already has none."""
    if "torch" not in sys.modules:
        return None
    found: dict[str, Any] = {}
    for field in dataclasses.fields(message):  # type: ignore[arg-type]  # each is a dataclass
        value = getattr(message, field.name)
        try:
            plain = _detached(value)
        except RecursionError:
            return None  # packing the message reports it
        if plain is not value:
            found[field.name] = plain
    if not found:
        return None
    made = copy.copy(message)
    for name, value in found.items():
        object.__setattr__(made, name, value)  # works for frozen classes, too
    return made


def _detached(value: Any) -> Any:
    """The value without gradient history; the value itself if it has none."""
    kind = type(value)
    if kind is dict:
        by_key = {key: _detached(item) for key, item in value.items()}
        return by_key if any(map(_is_other, by_key.values(), value.values())) else value
    if kind is list or kind is tuple:
        items = [_detached(item) for item in value]
        return kind(items) if any(map(_is_other, items, value)) else value
    if isinstance(value, Ours):
        return detached(value) or value
    if isinstance(value, sys.modules["torch"].Tensor) and value.requires_grad and not value.is_leaf:
        return value.detach().requires_grad_()
    return value


def _is_other(one: object, other: object) -> bool:
    return one is not other
