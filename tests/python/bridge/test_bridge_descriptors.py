"""A bridge keeps no descriptors of what is gone, though its session goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import tensorbus as tb
from support.bridge.bridges import Machine
from support.harness import PATIENCE, eventually
from tensorbus import _core

Pair = tuple[Machine, Machine]

TIMES = 10
SLACK = 5  # descriptors; fewer than TIMES


def test_of_publishers(pair: Pair) -> None:
    here, there = pair
    counts = []
    with tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber:
        for number in range(TIMES):
            with tb.Publisher[Any]("data", domain=here.domain) as publisher:
                assert publisher.wait_for_subscribers(timeout=PATIENCE)
                publisher.publish(number)
                assert subscriber.receive().data == number
                counts.append((here.descriptors(), there.descriptors()))
            eventually(lambda: "data" not in there.topics())
    require_bounded(counts)


def test_of_services(pair: Pair) -> None:
    here, there = pair
    counts = []

    async def echo(request: Any) -> Any:
        return request

    async def serve_once(number: int) -> None:
        with tb.Client[Any, Any]("echo", domain=there.domain, timeout=PATIENCE) as client:
            async with tb.Node("server", domain=here.domain) as node:
                node.create_service("echo", callback=echo)
                running = asyncio.ensure_future(node.run())
                assert await client.call_async(number) == number
                counts.append((here.descriptors(), there.descriptors()))
                running.cancel()
                await asyncio.wait([running])

    for number in range(TIMES):
        asyncio.run(serve_once(number))
        eventually(lambda: not services(there))
    require_bounded(counts)


def services(machine: Machine) -> list[str]:
    found = _core.list_queues(tb.participant(machine.domain))
    return [one.name for one in found if one.name == "service:echo"]


def require_bounded(counts: list[tuple[int, int]]) -> None:
    for of_one_bridge in zip(*counts, strict=True):
        assert max(of_one_bridge) <= of_one_bridge[0] + SLACK, counts
