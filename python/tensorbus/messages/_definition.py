"""The definition of a message type: a text, the same in all languages (docs/messages.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tensorbus import _core

_DEFAULT = " = ..."


class Line(NamedTuple):
    """The line of a field in a definition."""

    name: str
    type: str
    has_default: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + _DEFAULT * self.has_default


def definition_text(name: str, lines: Iterable[Line]) -> str:
    """The definition of a type with these fields.

    >>> print(definition_text("robot.Speed", [Line("v", "float", False), Line("id", "int", True)]))
    robot.Speed
    id: int = ...
    v: float
    """
    return "\n".join([name, *(str(line) for line in sorted(lines))])


def fingerprint_of(definition: str) -> int:
    """64-bit FNV-1a (Fowler, Noll, Vo) of a definition without its defaults; never 0.

    >>> f"{fingerprint_of('robot.Speed'):016x}"
    '22a965e63019b1de'
    >>> fingerprint_of("a\\nx: int") == fingerprint_of("a\\nx: int = ...")
    True
    """
    return _core.fingerprint_of(definition)


def compatible(writer: str, reader: str) -> str | None:
    """Why messages of one definition cannot be read as messages of another; None if they can.

    They can if both definitions have the same name, and each field of the reader has the same type
    in the writer, or is not in the writer and has a default in the reader.

    Args:
        writer: the definition of the published messages.
        reader: the definition of the subscriber's messages.

    Raises:
        InvalidArgument: a text is not a definition.

    >>> compatible("robot.Speed\\nv: float", "robot.Speed\\nunit: str = ...\\nv: float")
    >>> compatible("robot.Speed\\nv: int", "robot.Speed\\nv: float")
    'robot.Speed.v: expected float, published is int'
    """
    return _core.why_not(reader, writer) or None
