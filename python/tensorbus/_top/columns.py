"""What a table on the terminal is made of, without the terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar


class Subject(NamedTuple):
    """What a page of its own is about."""

    kind: Literal["topic", "process", "queue", "machine"]
    name: str
    """The topic, the machine, or the id of a participant."""
    number: int = 0
    """Of a queue, in its participant."""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    key: str
    """Tells it from the other rows, now and in later snapshots."""
    why: str
    """Why it is red; "": it is not."""
    opens: Subject | None
    """What is shown when it is chosen."""


R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Column(Generic[R]):
    """A column: what it shows of a row, and what it is sorted by."""

    title: str
    text: Callable[[R], str]
    order: Callable[[R], Any]
    width: int | None = None
    """In characters; None: as wide as the text of the rows when they came."""
    is_number: bool = False


Columns = tuple[Column[R], ...]


@dataclass(frozen=True)
class Table(Generic[R]):
    """A table of some page."""

    name: str
    columns: Columns[R]
    """The first one names the row."""
    rows: Callable[[], list[R]]


@dataclass(frozen=True)
class Page:
    """What the screen shows at a time."""

    title: str
    about: str
    """More of what it is about, in a few words."""
    tables: tuple[Table[Any], ...]


def words(title: str, of: Callable[[R], str], width: int | None = None) -> Column[R]:
    """A column of text."""
    return Column(title, of, of, width)


def number(
    title: str, of: Callable[[R], Any], text: Callable[[Any], str] = str, width: int = 10
) -> Column[R]:
    """A column of numbers, of which some may be unknown: None."""

    def order(row: R) -> float:
        value = of(row)
        return -1.0 if value is None else value

    return Column(title, lambda row: text(of(row)), order, width, is_number=True)


def ratio(title: str, of: Callable[[R], tuple[int, int]], width: int = 10) -> Column[R]:
    """A column of parts of a whole, such as 3/8; a whole of 0 is unlimited."""

    def text(row: R) -> str:
        part, whole = of(row)
        return f"{part}/{whole}" if whole else str(part)

    def order(row: R) -> tuple[float, int]:
        part, whole = of(row)
        return part / whole if whole else 0.0, part

    return Column(title, text, order, width, is_number=True)


def reason() -> Column[Any]:
    """The last column: why the row is red."""
    return words("why", lambda row: row.why, width=70)


def matches(row: Row, columns: Columns[Any], wanted: str) -> bool:
    """Whether a column of text has these letters, small or capital."""
    return any(
        wanted.casefold() in column.text(row).casefold()
        for column in columns
        if not column.is_number
    )
