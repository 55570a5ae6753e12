"""Services of a process that has no descriptor for another connection."""

from __future__ import annotations

import asyncio

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell
from support.shortage import Refusals, limit_descriptors, no_descriptor_left

MOST = 128


def serve_without_room() -> None:
    refusals = Refusals()
    limit_descriptors(MOST)

    def control() -> None:
        with no_descriptor_left():
            tell("full")
            hear()
            assert refusals.heard.wait(PATIENCE)
        tell("room")
        hear()

    async def main() -> None:
        async with tb.Node("server") as node:
            node.create_service("double", callback=lambda number: 2 * number)
            running = asyncio.ensure_future(node.run())
            await asyncio.to_thread(control)
            await node.close()
            await running

    tb.run(main())


def test_a_call_names_the_limit_of_the_services_process_and_the_next_one_is_answered(
    elsewhere: Elsewhere,
) -> None:
    other = elsewhere.start(serve_without_room)
    assert other.hear() == "full"
    with tb.Client("double") as client:
        with pytest.raises(tb.OutOfMemory, match=f"RLIMIT_NOFILE is {MOST}"):
            client.call_sync(4, timeout=3)
        other.tell()
        assert other.hear() == "room"
        assert client.call_sync(4, timeout=PATIENCE) == 8
    other.tell()
