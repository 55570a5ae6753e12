"""The definition of a message type: a text, the same in every language (docs/messages.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tensorbus._errors import InvalidArgument

_DEFAULT = " = ..."


class Line(NamedTuple):
    """A field, as its line in a definition has it."""

    name: str
    type: str
    has_default: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + _DEFAULT * self.has_default


def definition_text(name: str, lines: Iterable[Line]) -> str:
    """
    >>> print(definition_text("robot.Speed", [Line("v", "float", False), Line("id", "int", True)]))
    robot.Speed
    id: int = ...
    v: float
    """
    return "\n".join([name, *(str(line) for line in sorted(lines))])


def parsed(definition: str) -> tuple[str, dict[str, Line]]:
    """The name in a definition, and its fields.

    Raises:
        InvalidArgument: it is none.
    """
    name, *rest = definition.split("\n")
    lines = {}
    for text in rest:
        field, colon, type_ = text.partition(": ")
        if not colon:
            raise InvalidArgument(f"{text!r} is no line of a definition: expected `field: type`")
        bare = type_.removesuffix(_DEFAULT)
        lines[field] = Line(field, bare, bare != type_)
    return name, lines


def fingerprint_of(definition: str) -> int:
    """64-bit FNV-1a (Fowler, Noll, Vo) of a definition without its defaults; never 0.

    >>> f"{fingerprint_of('robot.Speed'):016x}"
    '22a965e63019b1de'
    >>> fingerprint_of("a\\nx: int") == fingerprint_of("a\\nx: int = ...")
    True
    """
    value = 0xCBF29CE484222325
    bare = "\n".join(line.removesuffix(_DEFAULT) for line in definition.split("\n"))
    for byte in bare.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value or 1


def compatible(writer: str, reader: str) -> str | None:
    """Why messages of one definition cannot be read as those of another; None if they can.

    They can if they have the same name, and each field of the reader is of the same type in the
    writer, or is not in the writer and has a default in the reader.

    Args:
        writer: the definition of what is published.
        reader: the definition of what is wanted.

    Raises:
        InvalidArgument: a text that is no definition.

    >>> compatible("robot.Speed\\nv: float", "robot.Speed\\nunit: str = ...\\nv: float")
    >>> compatible("robot.Speed\\nv: int", "robot.Speed\\nv: float")
    "field 'v' is int where it is written, and float where it is read"
    """
    name, written = parsed(writer)
    wanted, read = parsed(reader)
    if name != wanted:
        return f"it is {name} where it is written, and {wanted} where it is read"
    for field in read.values():
        there = written.get(field.name)
        if there is None:
            if not field.has_default:
                return f"field {field.name!r} is not written, and has no default where it is read"
        elif there.type != field.type:
            return (
                f"field {field.name!r} is {there.type} where it is written, and {field.type} "
                "where it is read"
            )
    return None
