"""The ``tensorbus`` command: each subcommand is a function that adds itself to the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from tensorbus._core import version
from tensorbus.doctor import add_command as add_doctor

# What `add_command` of a module gets; argparse has no public name for it.
Commands = Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the arguments (those of the process) name; the exit status."""
    parser = argparse.ArgumentParser(
        prog="tensorbus", description="Tensors from one process to another, by reference."
    )
    parser.add_argument("--version", action="version", version=f"tensorbus {version}")
    add_doctor(parser.add_subparsers(title="commands", required=True, metavar="COMMAND"))
    given = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = given.run
    return run(given)
