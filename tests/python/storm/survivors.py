"""The processes that live through the storm, and what must be of them when nobody else is there.

Each works until it is told to rest; then it lets go of everything and tells what it has of the
machine.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tensorbus as tb
from storm.actor import Actor
from storm.records import OK, WORK
from storm.roles import SERVICE, STEADY, TIGHT, echo, get_and_finish, put_new

QUEUES: dict[str, dict[str, Any]] = {
    "plain": {"maxsize": 32},
    "tight": {"maxsize": TIGHT},
    "shared": {"maxsize": 16, "shared": True},
    "again": {"maxsize": 32, "redeliver": True},
    "open": {"redeliver": True},
}
REDELIVER = {name: bool(options.get("redeliver")) for name, options in QUEUES.items()}
RETRIES = 50  # of the pool: more deaths than one item will meet
SETTLE = 0.02  # seconds without an item, after which a queue may be empty


class Channel:
    """To and from the process that has the storm, by a socket that keeps messages apart."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def tell(self, value: Any) -> None:
        self._end.send(json.dumps(value).encode())

    def hear(self) -> Any:
        message = self._end.recv(1 << 16)
        if not message:
            raise SystemExit("the other side is gone")
        return json.loads(message)

    def waits(self, timeout: float = 0) -> bool:
        return bool(select.select([self._end], [], [], timeout)[0])

    def close(self) -> None:
        self._end.close()


def possessions() -> dict[str, int]:
    """What this process has of the machine, but for what it keeps for its forked children."""
    gc.collect()
    arena = tb.participant().arena
    maps = Path("/proc/self/maps").read_text()
    status = Path("/proc/self/status").read_text()
    private = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return {
        "descriptors": len(os.listdir("/proc/self/fd")) - arena["forked_children"],
        "mappings": maps.count("memfd:tensorbus") + maps.count(".npy"),
        "private KiB": int(private.split()[1]),
        "arena bytes": arena["used_bytes"] - arena["inherited_bytes"],
    }


Answer = Callable[[str], Any]


def work(channel: Channel, actor: Actor, step: Callable[[], object], answer: Answer) -> None:
    """Steps, until a question: after one a survivor rests until it is told to go on."""
    channel.tell("ready")
    while True:
        resting = False
        while resting or channel.waits():
            asked = channel.hear()
            resting = asked != "go"
            channel.tell(possessions() if asked == "possessions" else answer(asked))
        try:
            step()
        except Exception:  # told, and the storm goes on
            actor.recorder.wrong(traceback.format_exc()[-1500:].strip())


def host(channel: Channel, actor: Actor) -> None:
    """Has the queues, and uses them a little."""
    for name, options in QUEUES.items():
        actor.queues[name] = tb.Queue(**options)
    actor.stage.addresses = {name: queue.address for name, queue in actor.queues.items()}
    channel.tell(dict(actor.stage.addresses))

    def step() -> None:
        actor.chance.choice([put_new, get_and_finish])(actor)
        channel.waits(actor.chance.random() * 0.02)

    def answer(asked: str) -> Any:
        actor.let_go()
        if asked == "empty":
            return {name: empty(actor, name) for name in QUEUES}
        if asked == "stats":
            return {name: dict(actor.queues[name].stats) for name in QUEUES}
        return None

    work(channel, actor, step, answer)


def empty(actor: Actor, name: str) -> dict[str, int]:
    """Takes what is there: all others have gone, or rest."""
    line = actor.queues[name]
    while content := actor.get(name, SETTLE):
        actor.done(name, content)
    stats = line.stats
    if line.join(timeout=SETTLE) != (stats["unfinished"] == 0):
        again = line.stats  # the last of the dead may have been noticed meanwhile
        if again == stats:
            actor.recorder.wrong(f"join() and stats={stats} do not agree", name)
    return dict(stats)


def steady(channel: Channel, actor: Actor) -> None:
    """Does all that victims do."""

    def answer(asked: str) -> None:
        actor.let_go()

    work(channel, actor, lambda: actor.chance.choice(STEADY)(actor), answer)


def service(channel: Channel, actor: Actor) -> None:
    with tb.Node("storm") as node:
        node.create_service(SERVICE, callback=partial(echo, actor), mode="sync")
        node.spin(0)
        work(channel, actor, lambda: channel.waits(1), lambda asked: None)


def pool(channel: Channel, actor: Actor) -> None:
    """Its workers are killed; each item has its one result all the same."""

    def double(content: dict[str, Any]) -> dict[str, Any]:
        actor.recorder.write(WORK, OK, "pool", os.getpid())
        assert all((each == content["number"]).all() for each in content["data"])
        return {"number": content["number"], "data": [each * 2 for each in content["data"]]}

    with tb.WorkerPool(double, workers=2, context="fork", retries=RETRIES) as workers:

        def step() -> None:
            numbers = [actor.number() for _ in range(8)]
            items = [{"number": each, "data": [np.full(900, each)]} for each in numbers]
            results = workers.map(items)
            for number, result in zip(numbers, results, strict=True):
                if result["number"] != number or not (result["data"][0] == 2 * number).all():
                    actor.recorder.wrong(f"the pool made {result} of {number:#x}", "pool")
                actor.recorder.write("result", OK, "pool", number)
            channel.waits(actor.chance.random() * 0.05)

        work(channel, actor, step, lambda asked: None)


SURVIVORS: dict[str, Callable[[Channel, Actor], None]] = {
    "host": host,
    "steady": steady,
    "service": service,
    "pool": pool,
}
