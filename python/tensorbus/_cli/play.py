"""``tensorbus play``."""

from __future__ import annotations

import sys
import threading
import time
from typing import Annotated

import typer

from tensorbus._cli.main_memory import leave_gpus
from tensorbus._cli.options import Domain
from tensorbus._cli.output import fail
from tensorbus._cli.play_control import NAME, Control
from tensorbus._cli.play_keys import KEYS, Keys
from tensorbus._cli.stop_signals import stop_signals
from tensorbus._inspection.units import shown
from tensorbus._recording.player import Player
from tensorbus.nodes._node import Node

_LOOK = 0.1  # seconds until the end, or a key, is noticed

_EXAMPLES = """\b
Examples:
  tensorbus play run.mcap
  tensorbus play run.mcap camera/image --rate 0.5 --start 10 --end 20 --loop
  tensorbus play run.mcap --remap camera/image:=replayed/image --clock clock
  tensorbus play run.mcap --paused     and, elsewhere: tensorbus player step"""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def renamed(text: str) -> tuple[str, str]:
    """
    >>> renamed("camera/image:=replayed/image")
    ('camera/image', 'replayed/image')
    """
    old, sign, new = text.partition(":=")
    if not (old and sign and new):
        raise typer.BadParameter(f"{text!r}: expected OLD:=NEW")
    return old, new


@app.command("play", epilog=_EXAMPLES)
def play(
    file: Annotated[str, typer.Argument(help="A file that `tensorbus record` has written.")],
    topics: Annotated[
        list[str] | None, typer.Argument(help="Names of recorded topics; without, all.")
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--topics", help="The same, as an option.", metavar="TOPIC"),
    ] = None,
    rate: Annotated[float, typer.Option(help="2: twice as fast.")] = 1.0,
    loop: Annotated[bool, typer.Option("--loop", help="Begin again after the end.")] = False,
    start: Annotated[
        float, typer.Option(min=0, help="From so many seconds after the first message.")
    ] = 0.0,
    end: Annotated[
        float | None, typer.Option(min=0, help="Until so many seconds after it; else to the end.")
    ] = None,
    remap: Annotated[
        list[str] | None,
        typer.Option(help="Another name for a topic.", metavar="OLD:=NEW"),
    ] = None,
    paused: Annotated[
        bool, typer.Option("--paused", "--step", help="Wait for a key, or `tensorbus player`.")
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(min=0, help="First wait until each topic has a subscriber.", metavar="S"),
    ] = None,
    clock: Annotated[
        str | None, typer.Option(help="Publish on it what time it is.", metavar="TOPIC")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Put tensors that were on a GPU onto this one.", metavar="cuda:N"),
    ] = None,
    name: Annotated[
        str, typer.Option(help="By which `tensorbus player` finds this one.", metavar="NAME")
    ] = NAME,
    domain: Domain = None,
) -> None:
    """Publish what was recorded, as it was: types, history, intervals. Nothing is copied.

    On a terminal, keys: space pauses and goes on, Enter publishes one message, + and - change the
    rate, q ends it. From another process: `tensorbus player`.
    """
    if device is None:
        leave_gpus()
    player = Player(
        file,
        [*(topics or ()), *(more or ())],
        rate=rate,
        loop=loop,
        start=start,
        end=end,
        remap=dict(map(renamed, remap or ())),
        paused=True,
        clock=clock,
        device=device,
        domain=domain,
    )
    with Keys(player) as keys, Node(name, domain=domain) as node, stop_signals(node.stop):
        node.create_service(name, callback=Control(player).answer, mode="sync")
        node.spawn_thread(_follow, player, keys, node, None if paused else wait or 0.0)
        print(f"playing {shown(file)}; {KEYS}", file=sys.stderr, flush=True)
        node.spin()
    stats = player.stats
    print(f"{stats.messages} messages, at most {stats.latest_ns / 1e6:.3f} ms late: {shown(file)}")
    player.close()
    if stats.unreadable:
        fail(f"{stats.unreadable} messages were left out: {shown(stats.error)}")


def _follow(
    stop: threading.Event, player: Player, keys: Keys, node: Node, wait: float | None
) -> None:
    """Resumes it, obeys keys, and ends the node when all was published.

    Args:
        stop: the node's.
        player: which is paused.
        keys: the terminal's.
        node: whose callbacks obey others.
        wait: seconds for subscribers to come; None: it stays paused.
    """
    try:
        if wait is not None:
            _wait_for_subscribers(stop, player, wait)
            if stop.is_set():
                return
            player.resume()
        while not stop.is_set() and not keys.ended and not player.wait(0 if keys else _LOOK):
            keys.obey(_LOOK)
        stop.wait(_LOOK)  # until whoever resumed it has an answer
    finally:
        node.stop()


def _wait_for_subscribers(stop: threading.Event, player: Player, wait: float) -> None:
    """Waits that many seconds at most, or until it is stopped."""
    until = time.monotonic() + wait
    while not stop.is_set():
        left = max(until - time.monotonic(), 0.0)
        if player.wait_for_subscribers(min(left, _LOOK)) or left <= _LOOK:
            return
