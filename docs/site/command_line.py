"""Makes the page of the command line: the help of every command.

python docs/site/command_line.py > docs/reference/command_line.md    with the package installed
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache

from native_kinds import NATIVE_KINDS

HEAD = """\
# The command line

Every command as it prints its own help (`--help`). What they show, with examples:
[see what is going on](../tasks/see.md). `tensorbus` is a program in C++, which `pip install
tensorbus` and `cmake --install` install. `doctor`, `bridge` and `tensorbus-config` also need Python
and no extra. These need `pip install 'tensorbus[cli]'`: `topic pub`, `queue keep`, `recording cut`,
`merge`, `convert`, `export` and `import`, `metrics`, `up`, `pipeline`, `wait`, `top`, `view` and
`trace`: `tensorbus` runs them with the program `tensorbus-python`. `python -m tensorbus` is the
same as `tensorbus`.

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


def page(program: str = "tensorbus") -> str:
    sections = [section(name, program) for name in commands(program)]
    return "\n".join([HEAD, *sections, JSON + kinds()])


def kinds() -> str:
    """The rows of the kinds of lines of `--json`."""
    from tensorbus._cli.records import KINDS

    declared = {**NATIVE_KINDS, **KINDS}
    return "".join(
        f"| `{name}` | {quoted(kind.commands)} | {kind.about} | {quoted(kind.fields)} |\n"
        for name, kind in declared.items()
    )


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def section(name: tuple[str, ...], program: str) -> str:
    heading = "#" * max(2, len(name))
    return f"{heading} {' '.join(name)}\n\n```text\n{help_of(name, program)}\n```\n"


def commands(program: str = "tensorbus") -> Iterator[tuple[str, ...]]:
    """The names of all commands, each group before its own.

    Args:
        program: the program `tensorbus`.
    """
    yield from names_below(("tensorbus",), program)
    yield ("tensorbus-config",)


def names_below(name: tuple[str, ...], program: str) -> Iterator[tuple[str, ...]]:
    yield name
    _, _, listed = help_of(name, program).partition("ommands:\n")  # of CLI11 and of typer
    for each in re.findall(r"^  (\w+) ", listed, re.MULTILINE):
        yield from names_below((*name, each), program)


@cache
def help_of(name: tuple[str, ...], program: str = "tensorbus") -> str:
    words = [program if word == "tensorbus" else word for word in name]
    done = subprocess.run(
        [*words, "--help"], env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    print(page(), end="")
