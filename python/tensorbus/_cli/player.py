"""``tensorbus player``: telling a running `tensorbus play` what to do."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from tensorbus._cli.asking import asked
from tensorbus._cli.options import Domain, Json, Timeout, group
from tensorbus._cli.output import fail, print_json, print_pairs
from tensorbus._cli.play_control import NAME

app = group("Tell a running `tensorbus play` what to do.")

_ANSWER = 5.0  # seconds

Name = Annotated[str, typer.Option(help="As its --name says.", metavar="NAME")]


@app.command("status", epilog="Example: tensorbus player status --json")
def status(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Show where it is, and how punctual."""
    _print(_asked({"do": "status"}, name, domain, timeout), as_json)


@app.command("pause")
def pause(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Stop before the next message."""
    _print(_asked({"do": "pause"}, name, domain, timeout), as_json)


@app.command("resume")
def resume(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Go on."""
    _print(_asked({"do": "resume"}, name, domain, timeout), as_json)


@app.command("step", epilog="Example: tensorbus player step 10")
def step(
    count: Annotated[int, typer.Argument(min=1, help="How many messages.")] = 1,
    name: Name = NAME,
    domain: Domain = None,
    timeout: Timeout = _ANSWER,
    as_json: Json = False,
) -> None:
    """Pause, and publish the next messages at once."""
    _print(_asked({"do": "step", "count": count}, name, domain, timeout), as_json)


@app.command("rate", epilog="Example: tensorbus player rate 0.5")
def rate(
    rate: Annotated[float, typer.Argument(help="2: twice as fast as it was recorded.")],
    name: Name = NAME,
    domain: Domain = None,
    timeout: Timeout = _ANSWER,
    as_json: Json = False,
) -> None:
    """Play faster or slower."""
    _print(_asked({"do": "rate", "rate": rate}, name, domain, timeout), as_json)


def _asked(
    request: dict[str, Any], name: str, domain: str | None, timeout: float
) -> dict[str, Any]:
    reply = asked(name, request, domain, timeout, "tensorbus play")
    if "position_ns" not in reply:
        fail(f"service {name!r} answers other than a player does")
    return reply


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
