"""Pages, tables, columns and rows, independent of the terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from tensorbus._inspection.units import part_text


class Subject(NamedTuple):
    """The subject of a page."""

    kind: Literal["topic", "process", "queue", "machine"]
    name: str
    """The topic, the machine, or the id of a participant."""
    number: int = 0
    """The number of a queue in its participant."""


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    key: str
    """Identifies the row in its table, in this and later snapshots."""
    why: str
    """Why the row is red; "": it is not red."""
    opens: Subject | None
    """The page that the row opens."""
    cells: tuple[Any, ...]
    """A value for each column except the reason."""


@dataclass(frozen=True)
class Column:
    """A column: how it shows and sorts its values."""

    title: str
    show: Callable[[Any], str]
    key: Callable[[Any], Any]
    width: int | None
    """In characters; None: as wide as the text of the first rows."""
    is_number: bool = False
    place: int | None = None
    """The index of its cells; None: it shows why a row is red."""

    def text(self, row: Row) -> str:
        return self.show(self._value(row))

    def order(self, row: Row) -> Any:
        return self.key(self._value(row))

    def _value(self, row: Row) -> Any:
        return row.why if self.place is None else row.cells[self.place]


Columns = tuple[Column, ...]


@dataclass(frozen=True)
class Table:
    """A table of a page."""

    name: str
    columns: Columns
    """The first column names the row."""
    rows: Callable[[], list[Row]]


@dataclass(frozen=True)
class Page:
    """The content of the screen."""

    title: str
    about: str
    """A short description of the subject."""
    tables: tuple[Table, ...]


def columns(*each: Column, why: bool = False) -> Columns:
    """The columns of a table, in the order of the cells of its rows.

    Args:
        why: append a column with the reason why a row is red.
    """
    placed = [replace(column, place=place) for place, column in enumerate(each)]
    return (*placed, words("why", width=70)) if why else tuple(placed)


def words(title: str, show: Callable[[Any], str] = str, width: int | None = None) -> Column:
    """A column of text."""
    return Column(title, show, show, width)


def number(title: str, show: Callable[[Any], str] = str, width: int = 10) -> Column:
    """A column of numbers; None: unknown."""
    return Column(title, show, lambda value: -1.0 if value is None else value, width, True)


def ratio(title: str, width: int = 10) -> Column:
    """A column of pairs of a part and a whole, for example 3/8; a whole of 0 is unlimited."""

    def key(value: tuple[int, int]) -> tuple[float, int]:
        part, whole = value
        return part / whole if whole else 0.0, part

    return Column(title, lambda value: part_text(*value), key, width, True)


def matches(row: Row, columns: Columns, wanted: str) -> bool:
    """True if a column of text contains the text; upper and lower case are the same."""
    return any(
        wanted.casefold() in column.text(row).casefold()
        for column in columns
        if not column.is_number
    )
