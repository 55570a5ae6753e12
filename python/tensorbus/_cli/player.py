"""``tensorbus player``: controls a running `tensorbus play`."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

import typer

from tensorbus._cli.asking import ask
from tensorbus._cli.options import Domain, Json, Timeout, group
from tensorbus._cli.output import print_pairs
from tensorbus._cli.records import known, print_record

NAME = "player"  # of the service, by default
REQUESTS = ("status", "pause", "resume", "step", "rate")

app = group("Control a running `tensorbus play`.")

_ANSWER = 5.0  # seconds

Name = Annotated[str, typer.Option(help="The --name of the player.", metavar="NAME")]


def _add(what: str, help: str, epilog: str | None = None) -> None:
    """Adds a command whose request has no arguments."""

    @app.command(what, help=help, epilog=epilog)
    def command(
        name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
    ) -> None:
        _print(_ask({"do": what}, name, domain, timeout), as_json)


_add(
    "status",
    "Show the player's position and its largest delay.",
    "Example: tensorbus player status --json",
)
_add("pause", "Pause before the next message.")
_add("resume", "Continue to play.")


@app.command("step", epilog="Example: tensorbus player step 10")
def step(
    count: Annotated[int, typer.Argument(min=1, help="How many messages.")] = 1,
    name: Name = NAME,
    domain: Domain = None,
    timeout: Timeout = _ANSWER,
    as_json: Json = False,
) -> None:
    """Pause, and publish the next messages at once."""
    _print(_ask({"do": "step", "count": count}, name, domain, timeout), as_json)


@app.command("rate", epilog="Example: tensorbus player rate 0.5")
def rate(
    rate: Annotated[float, typer.Argument(help="Speed; 2: twice as fast as recorded.")],
    name: Name = NAME,
    domain: Domain = None,
    timeout: Timeout = _ANSWER,
    as_json: Json = False,
) -> None:
    """Play faster or slower."""
    _print(_ask({"do": "rate", "rate": rate}, name, domain, timeout), as_json)


_ask = partial(ask, "tensorbus play", "position_ns")


def _print(reply: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return print_record("player", known("player", reply))
    at = reply["position_ns"] / 1e9
    state = "ended" if reply["ended"] else "paused" if reply["paused"] else "playing"
    print_pairs(
        [
            ("file", reply["file"]),
            ("state", f"{state}, rate {reply['rate']:g}"),
            ("time", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) + f"{at % 1:.3f}"[1:]),
            ("messages", f"{reply['messages']} published, {reply['left']} left"),
            ("late", f"{reply['latest_ns'] / 1e6:.3f} ms at most"),
        ]
    )
