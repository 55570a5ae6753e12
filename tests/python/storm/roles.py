"""What victims, and the survivor beside them, do with the bus: steps, chosen at random."""

from __future__ import annotations

import asyncio
import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

import tensorbus as tb
from storm.actor import IMPATIENT, LONG, SHORT, Actor, make_content
from storm.ledger import SHARE
from storm.records import ATTACH, EMPTY, GET, INTENT, OK, REFUSED, UNKNOWN
from support.access import is_shared

TIGHT = 2  # the maxsize of one of the queues
SERVICE, SHORT_LIVED = "storm/service", "storm/short-lived"  # of a survivor, and of victims


def put_new(actor: Actor) -> None:
    actor.put(actor.any_queue(), make_content(actor), actor.patience())


def get_and_finish(actor: Actor) -> None:
    name = actor.any_queue()
    if content := actor.get(name, actor.patience()):
        if actor.chance.random() < 0.3:
            time.sleep(actor.chance.random() * SHORT)
            actor.check(content, name)
        actor.done(name, content)
        attach_what_is_there(actor, content)
        actor.hold(content, name)


def get_several(actor: Actor) -> None:
    """The oldest is done first: that is the one `task_done` means."""
    name = actor.any_queue()
    had = [actor.get(name, actor.patience()) for _ in range(actor.chance.randrange(2, 5))]
    for content in filter(None, had):
        actor.done(name, content)


def get_briefly(actor: Actor) -> None:
    """Gives up again and again, and leaves soon after the last time."""
    name = actor.any_queue()
    for _ in range(actor.chance.randrange(1, 20)):
        content = actor.get(name, actor.chance.random() * IMPATIENT)
        if not content:
            break
        actor.done(name, content)
    if actor.chance.random() < 0.3:
        raise SystemExit


def await_briefly(actor: Actor) -> None:
    name = actor.any_queue()

    async def main() -> Any:
        patience = actor.chance.random() * actor.chance.choice([IMPATIENT, SHORT])
        return await asyncio.wait_for(actor.queue(name).get_async(), patience)

    actor.recorder.write(GET, INTENT, name)
    try:
        content = asyncio.run(main())
    except (TimeoutError, asyncio.TimeoutError):
        actor.recorder.write(GET, EMPTY, name)
    else:
        actor.done(name, actor.got(name, content))


def move(actor: Actor) -> None:
    """From one queue to another, by reference: handed on twice, and more often."""
    name = actor.any_queue()
    if content := actor.get(name, actor.patience()):
        onward = {"pattern": content["pattern"], "data": content["data"]}
        actor.put(actor.any_queue(), onward, actor.patience())
        actor.done(name, content)


def write_shared(actor: Actor) -> None:
    """Writes to what nobody else can have: it lies in shared memory and was never moved."""
    content = actor.get("shared", actor.patience())
    if not content:
        return
    if content.get("fresh") and all(is_shared(each) for each in content["data"]):
        content["pattern"] = actor.number()
        for each in content["data"]:
            each[:] = content["pattern"]
    actor.done("shared", content)


def write_own(actor: Actor) -> None:
    """Writes to what others may have, too: nobody else sees it, and it is sent on as it is now."""
    actor.let_go()  # all that this process has of one memory shows the write
    name = actor.any_queue()
    content = actor.get(name, actor.patience())
    if not content:
        return
    large = [each for each in content["data"] if each.nbytes >= mmap.PAGESIZE]
    own = {"number": content["number"], "pattern": 7, "data": []}
    own["data"] = [each for each in large if not is_shared(each)]
    for each in own["data"]:
        each[:] = own["pattern"]
    actor.check(own, name)
    if actor.chance.random() < 0.5:
        onward = {"pattern": own["pattern"], "data": own["data"]}
        actor.put(actor.any_queue(), onward, actor.patience())
    actor.done(name, content)
    actor.hold(own, name)


def share_one(actor: Actor) -> None:
    """The handle travels as an item, with the same tensors or without."""
    content = make_content(actor)
    offer(actor, content)


def offer(actor: Actor, content: dict[str, Any]) -> None:
    """What can be written is for one, so that nobody else sees the writes."""
    writable = actor.chance.random() < 0.3
    uses = 1 if writable else actor.chance.choice([0, 1, 2])
    shared = tb.share(content["data"], uses=uses or None, shared=writable)
    text = str(shared.handle)
    actor.recorder.write(SHARE, OK, text[-24:], uses)
    actor.shares.append(shared)
    access = ["read", "private", "shared"] if writable else ["read", "private"]
    item = {"pattern": content["pattern"], "data": [], "handle": text, "access": access}
    actor.put(actor.any_queue(), item, actor.patience())


def attach_what_is_there(actor: Actor, content: dict[str, Any]) -> None:
    text = content.get("handle")
    if not text:
        return
    access: Any = actor.chance.choice(content["access"])
    actor.recorder.write(ATTACH, INTENT, text[-24:])
    try:
        data = tb.attach(text, access=access, timeout=LONG)
    except tb.Closed:
        actor.recorder.write(ATTACH, REFUSED, text[-24:])
        return
    except tb.Timeout:
        actor.recorder.write(ATTACH, UNKNOWN, text[-24:])
        return
    actor.recorder.write(ATTACH, OK, text[-24:])
    found = {"number": content["number"], "pattern": content["pattern"], "data": data}
    actor.check(found, "share")
    if access != "read":
        found["pattern"] = 7  # a private one is in our own pages alone
        for each in data:
            each[:] = 7
    elif actor.chance.random() < 0.5:
        offer(actor, {"pattern": content["pattern"], "data": data})  # on, by a share of ours
    actor.hold(found, "share")


def call_service(actor: Actor) -> None:
    service = actor.chance.choice([SERVICE, SHORT_LIVED])
    if service not in actor.clients:
        actor.clients[service] = tb.Client(service, timeout=LONG if service == SERVICE else SHORT)
    client = actor.clients[service]
    number = actor.number()
    try:
        reply = client.call_sync({"number": number, "data": np.full(900, number)})
    except tb.Timeout:
        return
    except tb.Closed:
        if service == SERVICE:
            raise
        return
    if reply["number"] != number or not (reply["data"] == number).all():
        actor.recorder.wrong(f"the service answered {reply} to {number:#x}", service)
    actor.recorder.write("call", OK, service, number)


def echo(actor: Actor, request: Any) -> Any:
    number = request["number"]
    if not (request["data"] == number).all():
        actor.recorder.wrong(f"torn: a request of {number:#x} is {request}", "service")
    return request


def offer_a_service(actor: Actor) -> None:
    with tb.Node(f"victim-{actor.serial}-{actor.number()}") as node:
        node.create_service(SHORT_LIVED, callback=partial(echo, actor), mode="sync")
        node.spin(LONG)


def look(actor: Actor) -> None:
    with suppress(tb.Timeout):  # the host is stopped, or very busy
        if actor.queue("tight").qsize() > TIGHT:
            actor.recorder.wrong("more items wait than maxsize allows", "tight")
        actor.queue(actor.any_queue()).join(timeout=actor.chance.random() * SHORT)


def leave_a_child(actor: Actor) -> None:
    """It keeps what it has inherited for longer than we may live."""
    if os.fork() == 0:
        time.sleep(0.05)
        os._exit(0)


Step = Callable[[Actor], None]

ROLES: dict[str, list[Step]] = {
    "producer": [put_new, put_new, put_new, share_one, leave_a_child],
    "getter": [get_and_finish, get_and_finish, get_several, look],
    "impatient": [get_briefly],
    "async": [await_briefly, await_briefly, put_new],
    "mover": [move, move, get_and_finish],
    "writer": [write_shared, write_own, put_new],
    "sharer": [share_one, get_and_finish, get_and_finish],
    "server": [put_new, offer_a_service],
    "client": [call_service, call_service, put_new],
}
STEADY: list[Step] = [
    put_new,
    get_and_finish,
    get_several,
    await_briefly,
    move,
    write_shared,
    write_own,
    share_one,
    call_service,
    look,
]


def live(actor: Actor, role: str) -> None:
    while True:
        actor.chance.choice(ROLES[role])(actor)
