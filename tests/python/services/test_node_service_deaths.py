"""Services and clients that end, stop or are killed in the middle of a call."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridge_queues import in_thread
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.loops import Run, started
from support.node_runs import running
from support.node_services import serve_until_killed

ROUNDS = 30


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_the_death_of_the_service_ends_a_call_and_its_successor_serves_the_next(
    elsewhere: Elsewhere, kind: str
) -> None:
    outcome: list[BaseException] = []

    def call(request: str) -> Any:
        return (
            asyncio.run(client.call_async(request))
            if kind == "async"
            else client.call_sync(request)
        )

    def wait() -> None:
        try:
            call("wait")
        except tb.Error as error:
            outcome.append(error)

    with tb.Client("fragile") as client:
        for _ in range(2):
            other = elsewhere.start(serve_until_killed)
            assert other.hear() == "ready"
            assert call("hello") == "hello"
            thread = threading.Thread(target=wait)
            thread.start()
            assert other.hear() == "asked"
            other.kill()
            thread.join(PATIENCE)
            assert isinstance(outcome.pop(), tb.Closed)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_call_of_a_client_that_was_closed_meanwhile_hears_of_the_death(
    elsewhere: Elsewhere, kind: str
) -> None:
    other = elsewhere.start(serve_until_killed)
    assert other.hear() == "ready"
    client = tb.Client("fragile")
    assert client.call_sync("hello") == "hello"
    calling = in_thread(
        lambda: (
            asyncio.run(client.call_async("wait")) if kind == "async" else client.call_sync("wait")
        )
    )
    assert other.hear() == "asked"
    client.close()
    assert not calling.done()
    other.kill()
    with pytest.raises(tb.Closed, match="service 'fragile' has gone"):
        calling.result(PATIENCE)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_call_of_a_client_that_was_closed_meanwhile_gets_its_answer(kind: str) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def wait(request: object) -> object:
        asked.set()
        assert go_on.wait(PATIENCE)
        return request

    with tb.Node("node") as node:
        node.create_service("slow", callback=wait, mode="sync")
        node.spin(0)
        client = tb.Client("slow")
        calling = in_thread(
            lambda: asyncio.run(client.call_async(1)) if kind == "async" else client.call_sync(1)
        )
        assert asked.wait(PATIENCE)
        client.close()
        go_on.set()
        assert calling.result(PATIENCE) == 1


def test_the_end_of_the_node_ends_a_call(run: Run) -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def wait(request: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        with tb.Client("waits") as client:
            async with tb.Node("node") as node:
                node.create_service("waits", callback=wait)
                ending = await started(node.run())
                calling = await started(client.call_async(1))
                await asyncio.wait_for(asked.wait(), PATIENCE)
                node.stop()
                with pytest.raises(tb.Closed, match="service 'waits' has gone"):
                    await calling
                await ending

    run(main())


def answer_once() -> None:
    """Again and again: a service that ends with its first answer."""

    async def main() -> None:
        node = tb.Node("node")

        def stop(request: object) -> object:
            node.stop()
            return request

        async with node:
            node.create_service("once", callback=stop)
            tell("ready")
            await node.run()

    for _ in range(ROUNDS):
        asyncio.run(main())
        hear()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_answer_that_was_given_before_the_end_arrives(elsewhere: Elsewhere, kind: str) -> None:
    other = elsewhere.start(answer_once)
    for number in range(ROUNDS):
        assert other.hear() == "ready"
        with tb.Client("once", timeout=PATIENCE) as client:
            call = client.call_sync
            found = asyncio.run(client.call_async(number)) if kind == "async" else call(number)
        assert found == number
        other.tell(number)


def test_a_client_that_dies_costs_the_others_nothing(elsewhere: Elsewhere) -> None:
    def ask_and_hang() -> None:
        with tb.Client("echo") as client:
            threading.Thread(target=hear).start()
            client.call_sync("wait")

    async def main() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def echo(request: object) -> object:
            if request == "wait":
                asked.set()
                await go_on.wait()
            return request

        async with tb.Node("node") as node:
            node.create_service("echo", callback=echo)
            async with running(node):
                other = elsewhere.start(ask_and_hang)
                await asyncio.wait_for(asked.wait(), PATIENCE)
                other.kill()
                go_on.set()
                assert await node.create_client("echo").call_async(7, PATIENCE) == 7

    asyncio.run(main())


def test_a_stopped_service_is_a_timeout_and_answers_when_it_goes_on(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(serve_until_killed)
    assert other.hear() == "ready"
    with tb.Client("fragile", timeout=PATIENCE) as client:
        assert client.call_sync(1) == 1
        other.stop()
        for call in (client.call_sync, lambda *a: asyncio.run(client.call_async(*a))):
            with pytest.raises(tb.Timeout, match="has not answered in time"):
                call(2, 0.05)
        other.signal(signal.SIGCONT)
        assert client.call_sync(3) == 3
    other.kill()


def test_another_server_of_the_name_takes_over(elsewhere: Elsewhere) -> None:
    servers = [elsewhere.start(serve_until_killed) for _ in range(2)]
    assert [server.hear() for server in servers] == ["ready", "ready"]
    with tb.Client("fragile", timeout=PATIENCE) as client:
        assert client.call_sync(1) == 1
        servers[0].kill()

        def served() -> bool:
            try:
                return bool(client.call_sync(2) == 2)
            except tb.Closed:  # it died between two looks
                return False

        eventually(served)
        servers[1].kill()


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_the_successor_of_a_service_that_was_found_gets_the_whole_request(
    elsewhere: Elsewhere, kind: str
) -> None:
    with tb.Client("fragile", timeout=PATIENCE) as client:
        found = elsewhere.start(serve_until_killed)
        assert asyncio.run(client.wait_for_service_async(PATIENCE))
        found.kill()
        successor = elsewhere.start(serve_until_killed)
        request = {"number": 7, "data": np.arange(900)}
        reply = (
            asyncio.run(client.call_async(request))
            if kind == "async"
            else client.call_sync(request)
        )
        assert reply["number"] == 7
        np.testing.assert_array_equal(reply["data"], request["data"])
        successor.kill()
