"""``tensorbus queue keep``: a process that owns queues."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tensorbus._base.errors import Error
from tensorbus._base.signals import ending_signals
from tensorbus._cli.records import print_record
from tensorbus._inspection.units import shown
from tensorbus._queues.keeping import KeptQueue
from tensorbus._queues.queue import Queue


class NameTaken(Error):
    """Another process has a queue of this name; the text names the process."""


async def keep(names: list[str], make: Callable[[str], Queue[Any]], as_json: bool) -> int:
    """Keeps queues until a signal ends the command. Returns its exit status.

    Args:
        names: the names of the queues.
        make: makes the queue of a name; raises `NameTaken`.
        as_json: print JSON.

    Raises:
        NameTaken: another process has a queue of one of these names.
    """
    ended = asyncio.Event()
    for number in ending_signals():
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    kept: dict[str, KeptQueue] = {}
    try:
        for name in names:
            kept[name] = KeptQueue(lambda name=name: make(name))  # type: ignore[misc]
        for name in names:
            _say(name, "kept", as_json)
        renewing = [asyncio.create_task(_renew(name, kept, ended, as_json)) for name in names]
        await ended.wait()
        for task in renewing:
            task.cancel()
        await asyncio.wait(renewing)
    finally:
        left = {name: queue.close() for name, queue in kept.items()}
    for name, items in left.items():
        _say(name, "closed", as_json, items)
    return 0 if len(left) == len(names) else 1


async def _renew(
    name: str, kept: dict[str, KeptQueue], ended: asyncio.Event, as_json: bool
) -> None:
    """Makes the queue anew after each shutdown; gives it up if another process takes its name."""
    while True:
        await kept[name].wait_for_shutdown()
        try:
            kept[name].renew()
        except NameTaken as error:
            print(f"tensorbus: {shown(str(error))}", file=sys.stderr)
            del kept[name]
            if not kept:
                ended.set()
            return
        with suppress(OSError):  # nobody reads the output: the queues are kept nevertheless
            _say(name, "renewed", as_json)


def _say(name: str, event: str, as_json: bool, items: int = 0) -> None:
    if as_json:
        return print_record("kept", {"queue": name, "event": event, "items": items})
    text = {
        "kept": "is kept",
        "renewed": "was shut down, and is made anew",
        "closed": f"is closed, {items} item{'' if items == 1 else 's'} left in it",
    }
    print(f"{shown(name)} {text[event]}", flush=True)
