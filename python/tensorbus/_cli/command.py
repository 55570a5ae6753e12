"""The ``tensorbus`` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from tensorbus._cli import plain


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the arguments (those of the process) name; the exit status."""
    given = sys.argv[1:] if arguments is None else [*arguments]
    try:
        status = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # as of `tensorbus list | head -1`; the exit flushes once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _run(given: list[str]) -> int:
    first = given[0] if given else ""
    if first in plain.HELP:
        return plain.run(given)
    if find_spec("typer") is None:
        if first and not first.startswith("-"):
            print(f"tensorbus {first}: needs more packages: {plain.EXTRA}", file=sys.stderr)
            return 1
        return plain.run(given)
    from tensorbus._cli.app import run  # typer takes as long to import as all of Tensorbus

    return run(given)
