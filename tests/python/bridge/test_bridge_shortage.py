"""Every call of the system of a bridge that takes something fails once: then all crosses anyway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.bridge.bridge_queues import opened
from support.bridge.bridges import Machine, Relay, two_machines
from support.failing_calls import FailingCalls
from support.harness import PATIENCE, SANITIZED, eventually
from tensorbus import _core

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),  # each call fails once, in turn
    pytest.mark.skipif(SANITIZED, reason="the failing calls are preloaded in its place"),
]

TOO_MANY = 500  # calls of one operation
SLACK = 8  # descriptors; fewer than calls that fail

Cross = Callable[[Machine, Machine, str], None]


def topics(here: Machine, there: Machine, name: str) -> None:
    for source, target in ((here, there), (there, here)):
        with (
            tb.Publisher[Any](name, domain=source.domain, reliable=True) as publisher,
            tb.Subscriber[Any](name, domain=target.domain, timeout=PATIENCE) as subscriber,
        ):
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(3):
                publisher.publish(number)
                assert subscriber.receive().data == number
        eventually(lambda: name not in here.topics() and name not in there.topics())


def queues(here: Machine, there: Machine, name: str) -> None:
    for source, target in ((here, there), (there, here)):
        with tb.Queue[int](name=name, domain=source.domain) as home:
            mirror = opened(name, target)
            mirror.put(1, timeout=PATIENCE)
            assert home.get(timeout=PATIENCE) == 1
            home.put(2)
            assert mirror.get(timeout=PATIENCE) == 2
            for getter in (home, mirror):
                getter.task_done()
            eventually(lambda: home.stats.unfinished == 0)
        eventually(lambda: name not in names_at(here) | names_at(there))


def names_at(machine: Machine) -> set[str]:
    return {one.name for one in _core.list_queues(tb.participant(machine.domain))}


def services(here: Machine, there: Machine, name: str) -> None:
    async def double(number: int) -> int:
        return 2 * number

    async def call(source: Machine, target: Machine) -> None:
        async with tb.Node("server", domain=source.domain) as node:
            node.create_service(name, callback=double)
            running = asyncio.ensure_future(node.run())
            with tb.Client[Any, Any](name, domain=target.domain, timeout=PATIENCE) as client:
                assert await result_of(client) == 4
            running.cancel()
            await asyncio.wait([running])

    for source, target in ((here, there), (there, here)):
        asyncio.run(call(source, target))


async def result_of(client: tb.Client[Any, Any]) -> Any:
    """Of a call, or of the next one if that is refused: the error names the limit."""
    try:
        return await client.call_async(2)
    except tb.ServiceError as error:
        if "OutOfMemory" not in str(error):
            raise
        return await client.call_async(2)


@pytest.mark.parametrize("cross", [topics, queues, services], ids=lambda one: one.__name__)
def test_all_crosses_though_any_call_fails(tmp_path: Path, cross: Cross) -> None:
    fail_each_call(tmp_path, lambda here, there, name, _: cross(here, there, name))


def test_a_connection_comes_back_though_any_call_fails(tmp_path: Path) -> None:
    def reconnect(here: Machine, there: Machine, name: str, relay: Relay) -> None:
        relay.drop()
        topics(here, there, name)

    fail_each_call(tmp_path, reconnect)


def require_at_most(machine: Machine, descriptors: int) -> None:
    eventually(lambda: machine.descriptors() <= descriptors)


def fail_each_call(folder: Path, operation: Callable[[Machine, Machine, str, Relay], None]) -> None:
    """In both bridges in turn."""
    relay = Relay()
    calls = {}
    for name in ("here", "there"):
        (folder / f"{name}-calls").mkdir()
        calls[name] = FailingCalls(folder / f"{name}-calls")
    with two_machines(
        folder, through=relay, environment={name: one.environment for name, one in calls.items()}
    ) as machines:
        operation(*machines, "first", relay)
        for machine in machines:
            before = machine.descriptors()
            failed: list[str] = []
            while len(failed) < TOO_MANY:
                number = len(failed)
                with calls[machine.name].failing(number) as outcome:
                    operation(*machines, f"{machine.name}-{number}", relay)
                if not outcome.failed:
                    break
                failed.append(outcome.failed)
            assert 0 < len(failed) < TOO_MANY
            require_at_most(machine, before + SLACK)
        for machine in machines:
            assert not re.search("Traceback|Exception in callback|never retrieved", machine.output)
    relay.close()
