"""``tensorbus-python``: the commands of ``tensorbus`` that need Python.

The program ``tensorbus`` (``src/tensorbus/cli``) has all others, and runs these.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from tensorbus._cli import plain, process


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status.

    Args:
        arguments: the command line; by default that of the process.
    """
    if arguments is None:
        process.take_over()
    given = sys.argv[1:] if arguments is None else [*arguments]
    return process.status_of(lambda: _run(given))


def _run(given: list[str]) -> int | None:
    first = given[0] if given else ""
    if first in plain.HELP:
        return plain.run(given)
    if find_spec("typer") is None:
        if first and not first.startswith("-"):
            print(f"tensorbus {first}: needs more packages: {plain.EXTRA}", file=sys.stderr)
            return 1
        return plain.run(given)
    # Here: typer takes as long to import as all of Tensorbus.
    from typer._completion_classes import completion_init

    from tensorbus._cli.app import app

    completion_init()  # for the scripts that the package installs
    status: int | None = app(given, prog_name="tensorbus")
    return status
