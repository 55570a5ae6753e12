"""The types of fields whose values contain other values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tensorbus._base.errors import Unsupported
from tensorbus._tensors.library import Library
from tensorbus.messages._kinds import AnyKind, Enumeration, Kind, NameOf, lowered_value
from tensorbus.messages._mismatch import Mismatch, refused

Convert = Callable[[Kind, Any], Any]


def _restorer(library: Library | None) -> Convert:
    return lambda kind, value: kind.restore(value, library)


class Container(Kind):
    """A type whose values contain items. The same code converts them to be sent and as received."""

    def spell(self, name_of: NameOf) -> str:
        raise NotImplementedError

    def lower(self, value: Any) -> Any:
        return self._converted(value, lowered_value)

    def restore(self, value: Any, library: Library | None) -> Any:
        return self._converted(value, _restorer(library))

    def _converted(self, value: Any, convert: Convert) -> Any:
        raise NotImplementedError

    def _require(self, container: type, value: object) -> None:
        if type(value) is not container:
            raise refused(self.text, value)


def short(cls: type) -> str:
    """The name of a nested message in errors, without its fingerprint."""
    name: str = cls._message_name  # type: ignore[attr-defined]
    return name


class Items(Container):
    """Any number of one type, in a list, set, frozenset or tuple."""

    def __init__(self, container: type, item: Kind) -> None:
        self._container = container
        self._item = item
        super().__init__(self.spell(short))

    def spell(self, name_of: NameOf) -> str:
        dots = ",..." if self._container is tuple else ""
        return f"{self._container.__name__}<{self._item.spell(name_of)}{dots}>"

    def _converted(self, value: Any, convert: Convert) -> Any:
        self._require(self._container, value)
        if self._item.exact.issuperset(map(type, value)):
            return value
        return self._container(
            [_at(f"[{index}]", convert, self._item, item) for index, item in enumerate(value)]
        )


class Places(Container):
    """A tuple with a type for each position."""

    def __init__(self, items: list[Kind]) -> None:
        self._items = items
        super().__init__(self.spell(short))

    def spell(self, name_of: NameOf) -> str:
        return f"tuple<{','.join(item.spell(name_of) for item in self._items)}>"

    def _converted(self, value: Any, convert: Convert) -> Any:
        self._require(tuple, value)
        if len(value) != len(self._items):
            raise Mismatch(self.text, f"a tuple of {len(value)}")
        pairs = zip(self._items, value, strict=True)
        return tuple(
            [_at(f"[{index}]", convert, kind, item) for index, (kind, item) in enumerate(pairs)]
        )


class Mapping(Container):
    """A dict."""

    def __init__(self, key: Kind, value: Kind) -> None:
        self._key = key
        self._value = value
        super().__init__(self.spell(short))

    def spell(self, name_of: NameOf) -> str:
        return f"dict<{self._key.spell(name_of)},{self._value.spell(name_of)}>"

    def _converted(self, value: Any, convert: Convert) -> Any:
        self._require(dict, value)
        if self._key.exact.issuperset(map(type, value)) and self._value.exact.issuperset(
            map(type, value.values())
        ):
            return value
        return {
            _at(f" key {key!r}", convert, self._key, key): _at(
                f"[{key!r}]", convert, self._value, item
            )
            for key, item in value.items()
        }


class OneOf(Container):
    """A union."""

    def __init__(self, members: Iterable[Kind]) -> None:
        self.members = list(members)
        super().__init__(self.spell(short))
        self.exact = set().union(
            *(set(member.exact) for member in self.members if not isinstance(member, AnyKind))
        )
        self._check_enums()

    def spell(self, name_of: NameOf) -> str:
        return "|".join(sorted({member.spell(name_of) for member in self.members}))

    def _converted(self, value: Any, convert: Convert) -> Any:
        kind = type(value)
        if kind in self.exact:
            return value
        nearest = refused(self.text, value)
        for member in self.members:
            try:
                converted = convert(member, value)
            except Mismatch as mismatch:
                if mismatch.path:
                    nearest = mismatch
                continue
            if kind in member.exact and not isinstance(member, AnyKind):
                self.exact.add(kind)
            return converted
        raise nearest

    def _check_enums(self) -> None:
        """Checks that a received value that stands for an enum's member identifies the enum."""
        taken = set(self.exact)
        for member in self.members:
            if isinstance(member, AnyKind):
                taken.update(kind for other in self._enums() for kind in other.values)
        for member in self._enums():
            if member.values & taken:
                raise Unsupported(
                    f"{self.text}: members of an enum are sent as their values, which would be "
                    "ambiguous in this union"
                )
            taken |= member.values

    def _enums(self) -> list[Enumeration]:
        return [member for member in self.members if isinstance(member, Enumeration)]


def _at(step: str, convert: Convert, kind: Kind, value: Any) -> Any:
    try:
        return convert(kind, value)
    except Mismatch as mismatch:
        raise mismatch.inside(step) from None
