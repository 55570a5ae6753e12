"""``tensorbus player``: controls a running `tensorbus play`."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

import typer

from tensorbus._cli.asking import ask
from tensorbus._cli.options import Domain, Json, Timeout, group
from tensorbus._cli.output import print_json, print_pairs

NAME = "player"  # of the service, by default
REQUESTS = ("status", "pause", "resume", "step", "rate")

app = group("Control a running `tensorbus play`.")

_ANSWER = 5.0  # seconds

Name = Annotated[str, typer.Option(help="The --name of the player.", metavar="NAME")]


@app.command("status", epilog="Example: tensorbus player status --json")
def status(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Show the player's position and its largest delay."""
    _print(_ask({"do": "status"}, name, domain, timeout), as_json)


@app.command("pause")
def pause(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Pause before the next message."""
    _print(_ask({"do": "pause"}, name, domain, timeout), as_json)


@app.command("resume")
def resume(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Go on playing."""
    _print(_ask({"do": "resume"}, name, domain, timeout), as_json)


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
        return print_json(reply)
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
