"""Plans: how instances of a message class are converted to fields, and made from fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from tensorbus._base.errors import Error, MessageError, Unsupported
from tensorbus._codec.received import Received
from tensorbus._codec.typed import LoweredMessage
from tensorbus._core import MessagePlan
from tensorbus._tensors.library import Library
from tensorbus.messages._annotations import hints_of, kind_of
from tensorbus.messages._definition import Line, definition_text, fingerprint_of
from tensorbus.messages._kinds import AnyKind, Everything, Kind, NameOf, Usual, lowered_value
from tensorbus.messages._mismatch import Mismatch, class_name, refused


class Field(NamedTuple):
    """One field of a message class."""

    name: str
    kind: Kind
    has_default: bool
    in_init: bool


class Plan:
    """The plan of one class. Made on first use, when all names in the annotations are defined.

    Raises:
        MessageError: the class is not a dataclass.
        Unsupported: a field's type cannot be sent.
    """

    def __init__(self, cls: type[Any]) -> None:
        check_is_dataclass(cls)
        self.cls = cls
        self.name: str = cls._message_name
        self._is_checked: bool = cls._message_checked
        hints = hints_of(cls, otherwise=None if self._is_checked else Any)
        self._nested: list[type] = []
        self.fields: list[Field] = [self._field(field, hints[field.name]) for field in fields(cls)]
        self._names = [field.name for field in self.fields]
        self.names: frozenset[str] = frozenset(self._names)
        self._values_of = _getter(self._names)
        self._required = {field.name for field in self.fields if not field.has_default}
        self._not_in_init = [field.name for field in self.fields if not field.in_init]
        self._checked = [(field.name, field.kind.exact, field.kind) for field in self.fields]

    def _field(self, field: dataclasses.Field[Any], hint: Any) -> Field:
        kind = self._kind_of(field.name, hint)
        # A field that __init__ does not take is set by the class itself.
        has_default = not field.init or not (field.default is field.default_factory is MISSING)
        return Field(field.name, kind, has_default, field.init)

    def _kind_of(self, name: str, hint: Any) -> Kind:
        try:
            kind = kind_of(hint, self._nested_kind)
        except Unsupported as error:
            if self._is_checked:
                raise Unsupported(f"{self.name}.{name}: {error}") from None
            return AnyKind()
        return kind if self._is_checked else Usual(kind)

    def _nested_kind(self, cls: type) -> Kind | None:
        if not is_message_class(cls):
            return None
        self._nested.append(cls)
        return NestedMessage(cls)

    @cached_property
    def types(self) -> dict[str, Plan]:
        """The plans of this type and of all types that its fields use, by name."""
        found: dict[str, Plan] = {}
        waiting = [self]
        while waiting:
            plan = waiting.pop()
            if plan.name not in found:
                found[plan.name] = plan
                waiting += map(plan_of, plan._nested)
        return found

    @cached_property
    def core(self) -> MessagePlan:
        """The plan for the core, which converts messages itself in all but rare cases."""
        return MessagePlan(self, self.cls, list(map(_for_core, self.fields)))

    @cached_property
    def definition(self) -> str:
        return self._definition((self.name,))

    @cached_property
    def fingerprint(self) -> int:
        return fingerprint_of(self.definition)

    def _definition(self, open_: tuple[str, ...]) -> str:
        """The definition. Types in `open_`, which contain this type, have no fingerprint in it."""

        def name_of(cls: type) -> str:
            plan = plan_of(cls)
            if plan.name in open_:
                return plan.name
            return f"{plan.name}#{fingerprint_of(plan._definition((*open_, plan.name))):016x}"

        return definition_text(
            self.name,
            (
                Line(field.name, field.kind.spell(name_of), field.has_default)
                for field in self.fields
            ),
        )

    def fits(self, cls: type) -> bool:
        """True for the plan's class, its subclasses, and classes of the same fingerprint."""
        return issubclass(cls, self.cls) or self.is_same_as(cls)

    def is_same_as(self, cls: type) -> bool:
        """True for the plan's class and classes of the same name and fingerprint."""
        return cls is self.cls or (
            getattr(cls, "_message_name", None) == self.name
            and plan_of(cls).fingerprint == self.fingerprint
        )

    def lower(self, message: Any) -> dict[str, Any]:
        """The checked fields of a message by name, as types that `tensorbus._codec.fields` encodes.

        Raises:
            Mismatch: a field does not have its type.
        """
        try:
            lowered = dict(zip(self._names, self._values_of(message), strict=True))
        except AttributeError as error:
            raise Mismatch("all its fields", str(error)) from None
        for name, exact, kind in self._checked:
            value = lowered[name]
            if type(value) not in exact:
                try:
                    lowered[name] = lowered_value(kind, value)
                except Mismatch as mismatch:
                    raise mismatch.inside(f".{name}") from None
        return lowered

    def restore(self, received: dict[str, Any], library: Library | None) -> Any:
        """The message with these fields. Fields that its class does not have are ignored.

        Raises:
            Mismatch: a field is missing, or does not have its type.
            MessageError: the class's `__init__` raised.
        """
        found = self._restored(received, library)
        set_later = {name: found.pop(name) for name in self._not_in_init if name in found}
        message = self._made(found)
        for name, value in set_later.items():
            object.__setattr__(message, name, value)
        return message

    def _restored(self, received: dict[str, Any], library: Library | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, exact, kind in self._checked:
            value = received.get(name, MISSING)
            if value is MISSING:
                if name in self._required:
                    raise Mismatch(f"{kind.text}, which has no default", "nothing").inside(
                        f".{name}"
                    )
            elif type(value) in exact:
                found[name] = value
            else:
                try:
                    found[name] = kind.restore(value, library)
                except Mismatch as mismatch:
                    raise mismatch.inside(f".{name}") from None
        return found

    def read(self, received: object, library: Library | None) -> Any:
        """The message with the received fields, or the received message.

        Raises:
            Mismatch: a field is missing or does not have its type, or another type was received.
            MessageError: the class's `__init__` raised.
        """
        if type(received) is dict:
            return self.restore(received, library)
        if not self.fits(type(received)):
            raise refused(self.name, received)
        return received

    def checked(self, message: Any) -> dict[str, Any]:
        """The result of `lower`, for a message of exactly this type, or a sample of one.

        Raises:
            MessageError: the message or a field has another type; the text names its place and both
                types.
            Unsupported: the message is nested too deeply, or contains itself.
        """
        if isinstance(message, Received):
            message = message.data
        if type(message) is not self.cls and not self.is_same_as(type(message)):
            raise MessageError(f"expected {self.name}, got {class_name(type(message))}")
        try:
            return self.lower(message)
        except Mismatch as mismatch:
            raise MessageError(f"{self.cls.__name__}{mismatch}") from None
        except RecursionError:
            raise Unsupported(f"{self.name}: nested too deep, or inside itself") from None

    def received(self, received: object, library: Library | None = None) -> Any:
        """The result of `read`.

        Raises:
            MessageError: a field is missing or does not have its type, or another type was
                received.
        """
        try:
            return self.read(received, library)
        except Mismatch as mismatch:
            raise MessageError(f"{self.cls.__name__}{mismatch}") from None
        except RecursionError:
            raise MessageError(f"{self.name}: the received message is nested too deep") from None

    def _made(self, given: dict[str, Any]) -> Any:
        try:
            return self.cls(**given)
        except Exception as error:
            self.refused(error)
            raise

    def refused(self, error: BaseException) -> None:
        """Raises MessageError for an exception of the class's __init__ or __post_init__."""
        if isinstance(error, Exception) and not isinstance(error, Error):
            raise MessageError(f"{self.name} refuses the received fields: {error}") from error


def _for_core(field: Field) -> tuple[str, set[type] | None, Any, Any, bool, bool]:
    kind = field.kind
    exact = None if isinstance(kind.exact, Everything) else kind.exact
    return field.name, exact, kind.lower, kind.restore, not field.has_default, field.in_init


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: tuple(getattr(message, name) for name in names)


class NestedMessage(Kind):
    """A message in a message, sent as a record of its name and fields."""

    def __init__(self, cls: type[Any]) -> None:
        super().__init__(cls._message_name)
        self._cls = cls

    def spell(self, name_of: NameOf) -> str:
        return name_of(self._cls)

    def lower(self, value: Any) -> LoweredMessage:
        if not plan_of(self._cls).fits(type(value)):
            raise refused(self.text, value)
        plan = plan_of(type(value))
        return LoweredMessage(plan.name, plan.lower(value))

    def restore(self, value: Any, library: Library | None) -> Any:
        return plan_of(self._cls).read(value, library)


def is_message_class(cls: object) -> bool:
    """True for classes that inherit from `Message`."""
    return isinstance(cls, type) and hasattr(cls, "_message_name")


def plan_of(cls: type[Any]) -> Plan:
    """The plan of a message class."""
    plan = cls.__dict__.get("_message_plan")
    if plan is None:
        plan = cls._message_plan = Plan(cls)
    return plan


def check_is_dataclass(cls: type) -> None:
    """Checks that a class itself, not only a base class, is a dataclass.

    Raises:
        MessageError: it is not a dataclass.
    """
    if "__dataclass_fields__" not in cls.__dict__:
        raise MessageError(
            f"{class_name(cls)} is no dataclass: write @dataclass above `class {cls.__name__}`"
        )
