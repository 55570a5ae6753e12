"""Output of commands: tables and errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import typer

from tensorbus._base.errors import InvalidArgument
from tensorbus._inspection.units import shown

_PIPE_WIDTH = 10_000  # columns if standard output is not a terminal: no line is broken


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table. Columns whose names begin with ">" are right-aligned."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(shown(str(cell))) for cell in row))
    console = Console(highlight=False)
    # A terminal that is narrower than the column titles breaks the lines itself.
    titles = sum(len(column.removeprefix(">")) + 2 for column in columns)
    console.width = max(console.width, titles) if console.is_terminal else _PIPE_WIDTH
    console.print(table)


# The package to install, or the extra, for a module.
_PACKAGES = {
    "PIL": "pillow",
    "av": "'tensorbus[video]'",
    "foxglove": "'tensorbus[foxglove]'",
    "mcap": "'tensorbus[ros]'",
    "rosbags": "'tensorbus[ros]'",
    "textual": "'tensorbus[cli]'",
    "webdataset": "'tensorbus[webdataset]'",
    "zarr": "'tensorbus[zarr]'",
}


def fail_without(error: ImportError) -> NoReturn:
    """Ends the command with the name of a package that is not installed."""
    name = str(error.name).partition(".")[0]
    fail(f"{name} is not installed: pip install {_PACKAGES.get(name, name)}")


@contextmanager
def refusals() -> Iterator[None]:
    """A context whose `InvalidArgument` is a failure (status 1), not a wrong command line.

    It is for what depends on files or on the bus: a name that is taken, a file that exists, or that
    is no recording.
    """
    try:
        yield
    except InvalidArgument as error:
        fail(shown(str(error)))


def fail(why: str) -> NoReturn:
    """Prints an error and ends the command with status 1."""
    print(f"tensorbus: {why}", file=sys.stderr)
    raise typer.Exit(1)
