"""The message types of this process, by name and by fingerprint."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

from tensorbus._base.errors import Error, ProtocolError, Unsupported
from tensorbus.messages._plan import Plan, plan_of

if TYPE_CHECKING:
    from tensorbus._codec.protocols import Restorer

Key = TypeVar("Key")


class _Newest(Generic[Key]):
    """The newest class that still exists, for each key. It has weak references to the classes."""

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


# The standard messages by name. `clear` does not remove them.
_standard: dict[str, type[Any]] = {}
_lock = RLock()  # reentrant: evaluating annotations may define a class
# Classes without a fingerprint yet: the dataclass decorator runs after the class is registered.
_new: list[ref[type[Any]]] = []
_by_fingerprint: _Newest[int] = _Newest()
_by_name: _Newest[str] = _Newest()


def add(cls: type[Any]) -> None:
    """Registers a message class by a weak reference.

    A class with the name of a standard message is ignored.
    """
    if cls._message_name in _standard:
        return
    with _lock:
        _new.append(ref(cls))
        _by_name.add(cls._message_name, cls)


def add_standard(cls: type[Any]) -> None:
    """Registers a standard message class; it is never removed."""
    _standard[cls._message_name] = cls


def with_fingerprint(fingerprint: int) -> type[Any] | None:
    """The class with this fingerprint; None if this process has none."""
    with _lock:
        _take_in_new()
        found = _by_fingerprint.get(fingerprint)
    return _standard_by_fingerprint().get(fingerprint) if found is None else found


def all_by_fingerprint() -> dict[int, type[Any]]:
    """All classes that are dataclasses."""
    with _lock:
        _take_in_new()
        return {**_standard_by_fingerprint(), **_by_fingerprint.all()}


def clear() -> None:
    """Removes all classes but the standard messages."""
    with _lock:
        _new.clear()
        _by_fingerprint.clear()
        _by_name.clear()


def plan_named(name: object) -> Plan:
    """The plan of the newest class with this name. A name that a peer sent never causes an import.

    Raises:
        Unsupported: this process has no class of this name.
    """
    found = (_by_name.get(name) or _standard.get(name)) if isinstance(name, str) else None
    if found is None:
        raise Unsupported(
            f"message type {name} is not defined in this process: import the module that defines "
            "its class"
        )
    return plan_of(found)


def restore_named(restorer: Restorer, name: str, fields: object) -> Any:
    """Restores a message that is inside another message, or that was published without a type.

    Args:
        restorer: the restorer of the outer message; its types take precedence over the registry.
        name: the name of the message's type.
        fields: the received fields by name.

    Raises:
        MessageError: a field is missing, or does not have its type.
        Unsupported: this process has no class of the type; the text names the type.
    """
    plan = restorer.types.get(name) or plan_named(name)
    if type(fields) is not dict:
        raise ProtocolError(f"a message of type {name} without fields")
    return plan.received(fields, restorer.library)


def _take_in_new() -> None:
    """Computes the fingerprints of new classes that have become dataclasses."""
    waiting = []
    for reference in _new:
        cls = reference()
        if cls is None:
            continue
        try:
            _by_fingerprint.add(plan_of(cls).fingerprint, cls)
        except Error:
            waiting.append(reference)
    _new[:] = waiting


def _standard_by_fingerprint() -> dict[int, type[Any]]:
    return {plan_of(cls).fingerprint: cls for cls in _standard.values()}
