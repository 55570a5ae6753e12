"""What the tests of queues between machines do, here and in other processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import tensorbus as tb
from support.bridge.bridges import Machine
from support.harness import PATIENCE, hear, tell


def opened(name: str, machine: Machine) -> tb.Queue[Any]:
    """The queue of that name, as programs of the machine see it, when it is there."""
    return tb.Queue.open(name, timeout=PATIENCE, domain=machine.domain)


def in_thread(function: Callable[[], Any]) -> Future[Any]:
    """What a function returns or raises that waits for something."""
    told: Future[Any] = Future()

    def run() -> None:
        try:
            told.set_result(function())
        except BaseException as error:
            told.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return told


def get_until_told(name: str, domain: str) -> None:
    """Tells each item, and then that it is done."""
    queue = tb.Queue.open(name, timeout=PATIENCE, domain=domain)
    tell("ready")
    for item in queue:
        tell(item)
        queue.task_done()
    tell(None)


def hold_last(name: str, domain: str, count: int) -> None:
    """Gets some items, and is not done with the last."""
    queue = tb.Queue.open(name, timeout=PATIENCE, domain=domain)
    tell("ready")
    for _ in range(count - 1):
        tell(queue.get(timeout=PATIENCE))
        queue.task_done()
    tell(queue.get(timeout=PATIENCE))
    hear()


def make_queue(name: str, domain: str) -> None:
    with tb.Queue(name=name, domain=domain):
        tell("ready")
        hear()


def put_one(name: str, domain: str) -> None:
    queue = tb.Queue.open(name, timeout=PATIENCE, domain=domain)
    tell("ready")
    queue.put("of the dead")


def waiting_gets(name: str, machine: Machine) -> int:
    """Gets that wait at a queue of the machine: its bridge has one for each of other machines."""
    return sum(
        client.waiting_gets
        for process in tb.inspect(machine.domain).participants
        for queue in process.queues
        if queue.name == name
        for client in queue.clients
    )
