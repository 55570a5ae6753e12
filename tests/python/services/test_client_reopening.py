"""Clients with `reopen=True` send a request again if its server ends before it has answered."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridge_queues import in_thread
from support.harness import PATIENCE, Elsewhere, Process, hear, tell

KINDS = ["async", "sync"]


def serve(answers: bool) -> None:
    """Tells of each request, and answers it or never does; closes the service when it is told."""

    async def main() -> None:
        async def callback(request: Any) -> Any:
            tell(request["id"])
            if not answers:
                await asyncio.Event().wait()
            return request["image"].sum()

        async with tb.Node("server") as node:
            service = node.create_service("sums", callback=callback, concurrency=20)
            tell("ready")
            running = asyncio.create_task(node.run())
            await asyncio.to_thread(hear)
            service.close()
            tell("closed")
            await asyncio.to_thread(hear)
            running.cancel()

    asyncio.run(main())


def server(elsewhere: Elsewhere, *, answers: bool) -> Process:
    process = elsewhere.start(serve, answers)
    assert process.hear() == "ready"
    return process


def call(client: tb.Client[Any, Any], kind: str, number: int, timeout: float | None = None) -> Any:
    request = {"id": number, "image": np.ones(1000)}
    if kind == "sync":
        return client.call_sync(request, timeout)
    return asyncio.run(client.call_async(request, timeout))


@pytest.mark.parametrize("how", ["is killed", "closes"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_server_gets_the_request(elsewhere: Elsewhere, kind: str, how: str) -> None:
    first = server(elsewhere, answers=False)
    with tb.Client("sums", reopen=True) as client:
        calling = in_thread(lambda: call(client, kind, 7))
        assert first.hear() == 7
        if how == "is killed":
            first.kill()
        else:
            first.tell()
            assert first.hear() == "closed"
        second = server(elsewhere, answers=True)
        assert second.hear() == 7
        assert calling.result(PATIENCE) == 1000
        assert call(client, kind, 8) == 1000
        second.kill()
    first.kill_if_running()


@pytest.mark.parametrize("kind", KINDS)
def test_several_servers_may_end_one_after_the_other(elsewhere: Elsewhere, kind: str) -> None:
    with tb.Client("sums", reopen=True, timeout=10 * PATIENCE) as client:
        calling = in_thread(lambda: call(client, kind, 1))
        for _ in range(4):
            hanging = server(elsewhere, answers=False)
            assert hanging.hear() == 1
            hanging.kill()
        last = server(elsewhere, answers=True)
        assert calling.result(PATIENCE) == 1000
        last.kill()


@pytest.mark.parametrize("kind", KINDS)
def test_it_waits_for_the_next_server_no_longer_than_its_timeout(
    elsewhere: Elsewhere, kind: str
) -> None:
    first = server(elsewhere, answers=False)
    with tb.Client("sums", reopen=True) as client:
        began = time.monotonic()
        calling = in_thread(lambda: call(client, kind, 1, timeout=2))
        assert first.hear() == 1
        first.kill()
        with pytest.raises(tb.Timeout, match="no service 'sums' in time"):
            calling.result(PATIENCE)
        assert time.monotonic() - began >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_close_ends_a_call_that_waits_for_the_next_server(
    elsewhere: Elsewhere, kind: str
) -> None:
    first = server(elsewhere, answers=False)
    client = tb.Client[Any, Any]("sums", reopen=True)
    calling = in_thread(lambda: call(client, kind, 1))
    assert first.hear() == 1
    first.kill()
    client.close()
    with pytest.raises(tb.Closed):
        calling.result(PATIENCE)


def test_a_client_of_a_node_reopens_too_and_many_calls_at_once(elsewhere: Elsewhere) -> None:
    first = server(elsewhere, answers=False)

    async def main() -> None:
        async with tb.Node("caller") as node:
            client = node.create_client("sums", reopen=True)
            requests = [{"id": number, "image": np.full(10, number)} for number in range(20)]
            calls = [asyncio.create_task(client.call_async(each)) for each in requests]
            seen = {await asyncio.to_thread(first.hear) for _ in range(20)}
            assert seen == set(range(20))
            await asyncio.to_thread(first.kill)
            second = await asyncio.to_thread(lambda: server(elsewhere, answers=True))
            assert await asyncio.gather(*calls) == [10 * number for number in range(20)]
            second.kill()

    asyncio.run(main())


def test_by_default_the_call_raises(elsewhere: Elsewhere) -> None:
    first = server(elsewhere, answers=False)
    with tb.Client("sums") as client:
        calling = in_thread(lambda: call(client, "sync", 1))
        assert first.hear() == 1
        first.kill()
        with pytest.raises(tb.Closed, match="has gone"):
            calling.result(PATIENCE)
