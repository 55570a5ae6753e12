"""The message types of this process."""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from weakref import ref

from tensorbus._errors import Error, InvalidArgument, ProtocolError, Unsupported
from tensorbus._tensors import Library
from tensorbus.messages._plan import Plan, is_message_class, plan_of

if TYPE_CHECKING:
    from tensorbus.messages._message import Message


Key = TypeVar("Key")


class _Newest(Generic[Key]):
    """Classes by a key, held weakly: of each key the newest that is still there."""

    def __init__(self) -> None:
        self._found: dict[Key, list[ref[type[Any]]]] = {}

    def add(self, key: Key, cls: type[Any]) -> None:
        others = [other for other in self._found.get(key, ()) if other() not in (None, cls)]
        self._found[key] = [*others, ref(cls)]

    def get(self, key: Key) -> type[Any] | None:
        for reference in reversed(self._found.get(key, ())):
            cls: type[Any] | None = reference()
            if cls is not None:
                return cls
        return None

    def all(self) -> dict[Key, type[Any]]:
        found = {key: self.get(key) for key in self._found}
        return {key: cls for key, cls in found.items() if cls is not None}

    def clear(self) -> None:
        self._found.clear()


class MessageType:
    """The message types of this process, by fingerprint.

    Every class that inherits from `Message` is here by itself, for as long as somebody else holds
    it, and the standard messages always are. Of two classes of one definition, as after a module is
    reloaded, the newer one counts.

    >>> from tensorbus import ImageMessage
    >>> MessageType.get(ImageMessage.fingerprint())
    <class 'tensorbus.messages._standard.ImageMessage'>
    """

    # The new ones have no fingerprints yet: that takes a dataclass, whose decorator comes later.
    _lock = RLock()  # reading annotations may define a class
    _new: ClassVar[list[ref[type[Any]]]] = []
    _by_fingerprint: ClassVar[_Newest[int]] = _Newest()
    _by_name: ClassVar[_Newest[str]] = _Newest()

    @staticmethod
    def get(fingerprint: int) -> type[Message] | None:
        """The class with this fingerprint, if there is one here."""
        with MessageType._lock:
            _take_in_new()
            found = MessageType._by_fingerprint.get(fingerprint)
        if found is None:
            found = _standard_by_fingerprint().get(fingerprint)
        return found

    @staticmethod
    def get_all() -> dict[int, type[Message]]:
        """All classes, by fingerprint. Those that are no dataclasses yet are not among them."""
        with MessageType._lock:
            _take_in_new()
            return {**_standard_by_fingerprint(), **MessageType._by_fingerprint.all()}

    @staticmethod
    def register(cls: type[Message]) -> type[Message]:
        """Makes a class known, again or after `clear`. May be used as a decorator.

        Raises:
            InvalidArgument: it is no message class.
        """
        if not is_message_class(cls):
            raise InvalidArgument(f"{cls!r} does not inherit from tensorbus.Message")
        with MessageType._lock:
            MessageType._new.append(ref(cls))
            MessageType._by_name.add(cls._message_name, cls)
        return cls

    @staticmethod
    def clear() -> None:
        """Forgets all but the standard messages."""
        with MessageType._lock:
            MessageType._new.clear()
            MessageType._by_fingerprint.clear()
            MessageType._by_name.clear()


def plan_named(name: object) -> Plan:
    """That of the newest class of this name; nothing is imported because a peer names it.

    Raises:
        Unsupported: there is none here.
    """
    found = MessageType._by_name.get(name) if isinstance(name, str) else None
    if found is None:
        found = _standard_types().get(name)
    if found is None:
        raise Unsupported(
            f"this is a message of type {name}, which this process does not know: import the "
            "module that defines its class"
        )
    return plan_of(found)


def restore_named(
    name: str, fields: object, as_: Library | None, declared: Mapping[str, Plan]
) -> Any:
    """A message that came in another one, or without a type.

    Args:
        name: that of its type.
        fields: by name.
        as_: whose tensors were asked for in place of what was sent.
        declared: the types that the message around it declares: they come before the registry.

    Raises:
        MessageError: a field is missing, or not of its type.
        Unsupported: its type is not known here; the text names it.
    """
    plan = declared.get(name) or plan_named(name)
    if type(fields) is not dict:
        raise ProtocolError(f"a message of type {name} without fields")
    return plan.received(fields, as_)


def _take_in_new() -> None:
    """Computes the fingerprints of classes that are ready for it."""
    waiting = []
    for reference in MessageType._new:
        cls = reference()
        if cls is None:
            continue
        try:
            MessageType._by_fingerprint.add(plan_of(cls).fingerprint, cls)
        except Error:
            waiting.append(reference)
    MessageType._new[:] = waiting


def _standard_types() -> dict[object, type[Any]]:
    from tensorbus.messages import _standard

    return {f"tensorbus.{name}": getattr(_standard, name) for name in _standard.__all__}


def _standard_by_fingerprint() -> dict[int, type[Any]]:
    return {plan_of(cls).fingerprint: cls for cls in _standard_types().values()}
