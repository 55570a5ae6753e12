"""The commands that need no extra packages, with argparse: doctor and bridge."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tensorbus._core import version

# The help of each command.
HELP = {
    "doctor": "Show what this machine can do for Tensorbus, and why not.",
    "bridge": "Connect the topics of this machine with those of others.",
}
EXTRA = "pip install 'tensorbus[cli]'"


def run(arguments: Sequence[str]) -> int:
    """Runs the command in the arguments. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="tensorbus",
        description="Tensors from one process to another, by reference.",
        epilog=f"The other commands in Python need more packages: {EXTRA}",
    )
    parser.add_argument("--version", action="version", version=f"tensorbus {version}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_doctor(commands)
    _add_bridge(commands)
    given = parser.parse_args(arguments)
    chosen: Callable[[argparse.Namespace], int] = given.run
    return chosen(given)


def _add(commands: Any, name: str, description: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=HELP[name], description=description
    )
    parser.add_argument("--domain", help="a name or a path in place of $TENSORBUS_DOMAIN")
    return parser


def _add_doctor(commands: Any) -> None:
    parser = _add(
        commands,
        "doctor",
        "Tries out what this machine can do for Tensorbus. The exit status is 0 if tensors in "
        "main memory are sent by reference.",
    )
    parser.add_argument("--json", action="store_true", help="print the same as a line of JSON")
    parser.add_argument(
        "--cuda", action="store_true", help="exit with 1, too, if no GPU can share its memory"
    )
    parser.set_defaults(run=_doctor)


def _doctor(given: argparse.Namespace) -> int:
    from tensorbus._cli.records import print_record
    from tensorbus.doctor import examine, text_of

    report = examine(given.domain)
    if given.json:
        print_record("doctor", asdict(report))
    else:
        print(text_of(report))
    works = report.host.can_share and (report.cuda.can_share or not given.cuda)
    return 0 if works else 1


def _add_bridge(commands: Any) -> None:
    parser = _add(
        commands,
        "bridge",
        "Runs the bridge of this machine, or shows what it does (docs/bridge.md).",
    )
    parser.add_argument("action", nargs="?", choices=("run", "status"), default="run")
    parser.add_argument(
        "--config", metavar="FILE", help="bridge.toml; options of the command override it"
    )
    parser.add_argument("--name", help="the name of this machine; by default its host name")
    parser.add_argument(
        "--listen",
        action="append",
        metavar="HOST:PORT",
        help="accept other bridges here; may be repeated",
    )
    parser.add_argument(
        "--connect",
        action="append",
        metavar="HOST:PORT",
        help="the address of another bridge; may be repeated",
    )
    parser.add_argument("--zenoh", metavar="FILE", help="the configuration of Zenoh, JSON5")
    parser.add_argument("--fleet", help="the name of the fleet of bridges on that network")
    parser.add_argument(
        "--certificate", metavar="FILE", help="the certificate of this machine, as PEM"
    )
    parser.add_argument(
        "--key", metavar="FILE", help="the certificate's private key, with mode 0600"
    )
    parser.add_argument(
        "--authority",
        metavar="FILE",
        help="the certificate of the authority that signed all certificates",
    )
    parser.add_argument(
        "--trust-network",
        action="store_true",
        help="connect without certificates: any program that reaches the port can read and publish",
    )
    parser.add_argument("--timeout", type=float, help="seconds that a connection may be cut")
    parser.add_argument("--json", action="store_true", help="print the status as a line of JSON")
    parser.set_defaults(run=_bridge)


def _bridge(given: argparse.Namespace) -> int:
    from tensorbus._cli.bridge import bridge  # here: it imports asyncio and ssl

    return bridge(given)
