"""``tensorbus play``."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from typing import Annotated, Any

import typer

from tensorbus._base.errors import InvalidArgument
from tensorbus._base.signals import stop_signals
from tensorbus._cli.options import Domain, Json
from tensorbus._cli.output import fail, refusals
from tensorbus._cli.play_keys import KEYS, Keys
from tensorbus._cli.player import NAME, REQUESTS
from tensorbus._cli.process import leave_gpus
from tensorbus._cli.records import print_record
from tensorbus._inspection.units import shown
from tensorbus._recording.player import Player
from tensorbus._recording.recording import Recording
from tensorbus.nodes._node import Node

_POLL = 0.1  # seconds between two checks of the keys and the stop event

_EXAMPLES = """\b
Examples:
  tensorbus play run.mcap
  tensorbus play run.mcap camera/image --rate 0.5 --start 10 --end 20 --loop
  tensorbus play run.mcap --remap camera/image:=replayed/image --clock clock
  tensorbus play run.mcap --paused     and, elsewhere: tensorbus player step"""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def renamed(text: str) -> tuple[str, str]:
    """The two names in a value of `--remap`.

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
        list[str] | None, typer.Argument(help="Names of recorded topics; by default all.")
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--topics", help="Names of recorded topics, as an option.", metavar="TOPIC"),
    ] = None,
    rate: Annotated[float, typer.Option(help="Speed; 2: twice as fast as recorded.")] = 1.0,
    loop: Annotated[
        bool, typer.Option("--loop", help="Start again after the last message.")
    ] = False,
    start: Annotated[
        float, typer.Option(min=0, help="Start this many seconds after the first message.")
    ] = 0.0,
    end: Annotated[
        float | None,
        typer.Option(
            min=0, help="End this many seconds after the first message; by default at the last."
        ),
    ] = None,
    remap: Annotated[
        list[str] | None,
        typer.Option(help="Another name for a topic.", metavar="OLD:=NEW"),
    ] = None,
    paused: Annotated[
        bool,
        typer.Option(
            "--paused", "--step", help="Start paused; wait for a key or `tensorbus player`."
        ),
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(
            min=0, help="Wait at most this long for a subscriber of each topic.", metavar="S"
        ),
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option(help="Publish the time in the recording on this topic.", metavar="TOPIC"),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Copy tensors that were on a GPU to this GPU.", metavar="cuda:N"),
    ] = None,
    name: Annotated[
        str, typer.Option(help="The name for `tensorbus player`.", metavar="NAME")
    ] = NAME,
    domain: Domain = None,
    as_json: Json = False,
) -> None:
    """Publish recorded messages with their types, histories and intervals. Nothing is copied.

    Keys on a terminal: space pauses and resumes, Enter publishes one message, + and - change the
    rate, q ends the command. `tensorbus player` controls it from another process.
    """
    if device is None:
        leave_gpus()
    names = [*(topics or ()), *(more or ())]
    with refusals():
        recorded = Recording(file)
        for topic in names:
            recorded.select(topic)
    player = Player(
        file,
        names,
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
        node.create_service(name, callback=partial(_answer, player), mode="sync")
        node.spawn_thread(_follow, player, keys, node, None if paused else wait or 0.0)
        print(f"playing {shown(file)}; {KEYS}", file=sys.stderr, flush=True)
        node.spin()
    stats = player.stats
    if as_json:
        print_record("player", {"file": file, **stats})
    else:
        latest = f"at most {stats.latest_ns / 1e6:.3f} ms late"
        print(f"{stats.messages} messages, {latest}: {shown(file)}")
    player.close()
    if stats.unreadable:
        fail(f"{stats.unreadable} messages were left out: {shown(stats.error)}")


def _follow(
    stop: threading.Event, player: Player, keys: Keys, node: Node, wait: float | None
) -> None:
    """Resumes the player, handles keys, and stops the node when all messages were published.

    Args:
        stop: the node's stop event.
        player: a player that is paused.
        keys: the keys of the terminal.
        node: the node that offers the player's service.
        wait: seconds to wait for subscribers before the player resumes; None: it remains paused.
    """
    try:
        if wait is not None:
            _wait_for_subscribers(stop, player, wait)
            if stop.is_set():
                return
            player.resume()
        while not stop.is_set() and not keys.ended and not player.wait(0 if keys else _POLL):
            keys.handle(_POLL)
        stop.wait(_POLL)  # time for the service to reply to the request that resumed it
    finally:
        node.stop()


def _answer(player: Player, request: Any) -> dict[str, Any]:
    """Replies to `tensorbus player`: `{"do": one of REQUESTS}`, with a `count` or a `rate`.

    Raises:
        InvalidArgument: the request is malformed.
    """
    what = request.get("do") if isinstance(request, dict) else None
    if what == "pause":
        player.pause()
    elif what == "resume":
        player.resume()
    elif what == "step":
        player.step(request.get("count", 1))
    elif what == "rate":
        player.rate = request.get("rate")
    elif what != "status":
        raise InvalidArgument(f"{request!r}: expected {{'do': one of {REQUESTS}}}")
    return {"file": player.path, **player.stats}


def _wait_for_subscribers(stop: threading.Event, player: Player, wait: float) -> None:
    """Waits for at most `wait` seconds, or until `stop` is set."""
    until = time.monotonic() + wait
    while not stop.is_set():
        left = max(until - time.monotonic(), 0.0)
        if player.wait_for_subscribers(min(left, _POLL)) or left <= _POLL:
            return
