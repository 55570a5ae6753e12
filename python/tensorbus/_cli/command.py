"""The ``tensorbus`` command: each subcommand is a function that adds itself to the parser."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tensorbus._cli.bridge import add_bridge
from tensorbus._core import version
from tensorbus.doctor import examine, text_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the arguments (those of the process) name; the exit status."""
    parser = argparse.ArgumentParser(
        prog="tensorbus", description="Tensors from one process to another, by reference."
    )
    parser.add_argument("--version", action="version", version=f"tensorbus {version}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_doctor(commands)
    add_bridge(commands)
    given = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = given.run
    return run(given)


def _add_doctor(commands: Any) -> None:
    """Adds ``tensorbus doctor``."""
    parser = commands.add_parser(
        "doctor",
        help="what this machine can do for Tensorbus, and why not",
        description="Tries out what this machine can do for Tensorbus. The exit status is 0 if "
        "tensors in main memory travel by reference.",
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.add_argument(
        "--cuda", action="store_true", help="exit with 1, too, if no GPU can share its memory"
    )
    parser.add_argument("--domain", help="a name or a path in place of $TENSORBUS_DOMAIN")
    parser.set_defaults(run=_doctor)


def _doctor(given: argparse.Namespace) -> int:
    report = examine(given.domain)
    print(json.dumps(asdict(report), indent=2) if given.json else text_of(report))
    works = report.host.can_share and (report.cuda.can_share or not given.cuda)
    return 0 if works else 1
