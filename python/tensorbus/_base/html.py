"""Small HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice

from tensorbus._base.stats import Stats

ROWS = 20  # maximum rows of a table


class Html(str):
    """HTML, which needs no escaping."""


def table(title: str, rows: Mapping[str, object]) -> Html:
    """A table with a title and one row for each item.

    >>> table("a<b", {"state": "open", "image": Html("<br>")})
    '<b>a&lt;b</b><table><tr><th>state</th><td>open</td></tr><tr><th>image</th><td><br></td></tr></table>'
    """
    return _titled(title, (f"<th>{escape(name)}</th>{_cell(rows[name])}" for name in rows))


def grid(title: str, columns: Iterable[str], rows: Iterable[Sequence[object]], count: int) -> Html:
    """A table with a title, the names of its columns, and its first 20 rows.

    Args:
        title: the title.
        columns: the names; a ">" before a name is left out.
        rows: the cells of each row.
        count: the number of all rows.

    >>> grid("topics", ("name", ">publishers"), [("a<b", 1)], 1)
    '<b>topics</b><table><tr><th>name</th><th>publishers</th></tr><tr><td>a&lt;b</td><td>1</td></tr></table>'
    """
    names = "".join(f"<th>{escape(name.removeprefix('>'))}</th>" for name in columns)
    lines = [names, *("".join(map(_cell, row)) for row in islice(rows, ROWS))]
    if count > ROWS:
        lines.append(f"<td>... {count - ROWS} more</td>")
    return _titled(title, lines)


def _titled(title: str, lines: Iterable[str]) -> Html:
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return Html(f"<b>{escape(title)}</b><table>{body}</table>")


def _cell(value: object) -> str:
    return f"<td>{value if isinstance(value, Html) else escape(str(value))}</td>"


def end_of_topic(title: str, stats: Stats | None, shown: Sequence[str]) -> Html:
    """The table of a publisher or subscriber with some counters; `stats` is None if closed."""
    if stats is None:
        return table(title, {"state": "closed"})
    return table(title, {"state": "open"} | {name: stats[name] for name in shown})
