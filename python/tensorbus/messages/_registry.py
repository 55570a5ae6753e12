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


# The standard ones by name, which `clear` does not forget.
_standard: dict[str, type[Any]] = {}
_lock = RLock()  # reading annotations may define a class
# The new ones have no fingerprints yet: that takes a dataclass, whose decorator comes later.
_new: list[ref[type[Any]]] = []
_by_fingerprint: _Newest[int] = _Newest()
_by_name: _Newest[str] = _Newest()


def add(cls: type[Any]) -> None:
    """Makes a message class known, for as long as somebody else holds it.

    One that has the name of a standard message does not take its place.
    """
    if cls._message_name in _standard:
        return
    with _lock:
        _new.append(ref(cls))
        _by_name.add(cls._message_name, cls)


def add_standard(cls: type[Any]) -> None:
    """Makes a message class known for good."""
    _standard[cls._message_name] = cls


def with_fingerprint(fingerprint: int) -> type[Any] | None:
    """The class with this fingerprint, if there is one here."""
    with _lock:
        _take_in_new()
        found = _by_fingerprint.get(fingerprint)
    return _standard_by_fingerprint().get(fingerprint) if found is None else found


def all_by_fingerprint() -> dict[int, type[Any]]:
    """All classes. Those that are no dataclasses yet are not among them."""
    with _lock:
        _take_in_new()
        return {**_standard_by_fingerprint(), **_by_fingerprint.all()}


def clear() -> None:
    """Forgets all but the standard messages."""
    with _lock:
        _new.clear()
        _by_fingerprint.clear()
        _by_name.clear()


def plan_named(name: object) -> Plan:
    """That of the newest class of this name; nothing is imported because a peer names it.

    Raises:
        Unsupported: there is none here.
    """
    found = (_by_name.get(name) or _standard.get(name)) if isinstance(name, str) else None
    if found is None:
        raise Unsupported(
            f"this is a message of type {name}, which this process does not know: import the "
            "module that defines its class"
        )
    return plan_of(found)


def restore_named(restorer: Restorer, name: str, fields: object) -> Any:
    """A message that came in another one, or without a type.

    Args:
        restorer: of the message around it; the types that this declares come before the registry.
        name: that of its type.
        fields: by name.

    Raises:
        MessageError: a field is missing, or not of its type.
        Unsupported: its type is not known here; the text names it.
    """
    plan = restorer.types.get(name) or plan_named(name)
    if type(fields) is not dict:
        raise ProtocolError(f"a message of type {name} without fields")
    return plan.received(fields, restorer.library)


def _take_in_new() -> None:
    """Computes the fingerprints of classes that are ready for it."""
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
