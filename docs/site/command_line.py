"""Makes the page of the command line: the help of every command.

python docs/site/command_line.py > docs/reference/command_line.md    with the package installed
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from unittest.mock import patch

HEAD = """\
# The command line

Every command as it prints its own help (`--help`). What they show, with examples:
[see what is going on](../tasks/see.md). `tensorbus doctor`, `tensorbus bridge` and
`tensorbus-config` need no extra; all others need `pip install 'tensorbus[cli]'`. `python -m
tensorbus` is the same as `tensorbus`. Some commands also exist [without
Python](../install.md#the-other-ways).

`docs/site/command_line.py` writes this page.
"""
JSON = """\
## JSON

With `--json` a command prints lines, and each line is one JSON object. Its `kind` determines its
other fields: each line of a kind has all of them, in this order. A number has its unit in its name,
such as `_ns` or `bytes`; other numbers are counts. Where the text names a class of Python, such as
`QueueReport`, [the reference](python.md) describes the fields. JSON has no NaN and no infinity:
they are the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. Errors are text on standard error.

A later version may add fields and kinds: a program should ignore those that it does not know.

| kind | printed by | line | fields |
|---|---|---|---|
"""
ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1"}


def page() -> str:
    return "\n".join([HEAD, *(section(name) for name in commands()), JSON + kinds()])


def kinds() -> str:
    """The rows of the kinds of lines of `--json`."""
    from tensorbus._cli.records import KINDS

    return "".join(
        f"| `{name}` | {quoted(kind.commands)} | {kind.about} | {quoted(kind.fields)} |\n"
        for name, kind in KINDS.items()
    )


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def section(name: tuple[str, ...]) -> str:
    heading = "#" * max(2, len(name))
    return f"{heading} {' '.join(name)}\n\n```text\n{help_of(name)}\n```\n"


def commands() -> Iterator[tuple[str, ...]]:
    """The names of all commands, each group before its own."""
    import typer

    from tensorbus._cli.app import app

    yield from names_below(("tensorbus",), typer.main.get_command(app))
    yield ("tensorbus-config",)


def names_below(name: tuple[str, ...], command: object) -> Iterator[tuple[str, ...]]:
    yield name
    if list_commands := getattr(command, "list_commands", None):
        for each in list_commands(None):
            yield from names_below((*name, each), command.get_command(None, each))


def help_of(name: tuple[str, ...]) -> str:
    program, *rest = name
    if program == "tensorbus-config":  # in a process of its own, since it takes the standard output
        command = (sys.executable, "-c", "from tensorbus._cli.config import main; main()", "--help")
        return subprocess.check_output(command, env=os.environ | ENVIRONMENT, text=True).strip()

    from tensorbus._cli.command import main

    with patch.dict(os.environ, ENVIRONMENT), redirect_stdout(StringIO()) as printed:
        status = main([*rest, "--help"])
    assert status == 0, (name, status)
    return printed.getvalue().strip()


if __name__ == "__main__":
    print(page(), end="")
