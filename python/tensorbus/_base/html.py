"""Small HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from tensorbus._base.stats import Stats


class Html(str):
    """HTML, which needs no escaping."""


def table(title: str, rows: Mapping[str, object]) -> Html:
    """A table with a title and one row for each item.

    >>> table("a<b", {"state": "open", "image": Html("<br>")})
    '<b>a&lt;b</b><table><tr><th>state</th><td>open</td></tr><tr><th>image</th><td><br></td></tr></table>'
    """
    body = "".join(
        f"<tr><th>{escape(name)}</th>"
        f"<td>{value if isinstance(value, Html) else escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return Html(f"<b>{escape(title)}</b><table>{body}</table>")


def end_of_topic(title: str, stats: Stats | None, shown: Sequence[str]) -> Html:
    """The table of a publisher or subscriber with some counters; `stats` is None if closed."""
    if stats is None:
        return table(title, {"state": "closed"})
    return table(title, {"state": "open"} | {name: stats[name] for name in shown})
