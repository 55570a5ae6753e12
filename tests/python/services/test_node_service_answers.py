"""Answers that nobody waits for: of clients that are stopped, and at the end of a service."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, Process, eventually, hear, tell
from support.loops import Run, open_files
from support.node_runs import running
from tensorbus._services import answers


def serve_until_stopped(mode: Any, at_the_end: float) -> None:
    answers._FINISH_TIMEOUT = at_the_end

    def echo(request: object) -> object:
        if request == "wait":
            tell("asked")
            hear()
        elif request == "stop":
            node.stop()
        return request

    async def main() -> None:
        async with node:
            await node.run()

    node = tb.Node("server")
    node.create_service("echo", callback=echo, mode=mode)
    if mode == "async":
        return asyncio.run(main())
    with node:
        node.spin()


def ask_to_wait() -> None:
    with tb.Client("echo", timeout=PATIENCE) as client:
        tell(client.call_sync("wait"))


def answered_when_stopped(elsewhere: Elsewhere, service: Process) -> Process:
    """A client that was stopped in the middle of a call, and whose answer was given then."""
    asking = elsewhere.start(ask_to_wait)
    assert service.hear() == "asked"
    asking.stop()
    service.tell("go on")
    return asking


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_client_that_is_stopped_costs_the_others_nothing(elsewhere: Elsewhere, mode: str) -> None:
    service = elsewhere.start(serve_until_stopped, mode, 0.0)
    stopped = answered_when_stopped(elsewhere, service)
    with tb.Client("echo", timeout=PATIENCE) as client:
        assert [client.call_sync(number) for number in range(3)] == [0, 1, 2]
    stopped.signal(signal.SIGCONT)
    assert stopped.hear() == "wait"
    service.kill()


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_what_was_answered_before_the_end_arrives(elsewhere: Elsewhere, mode: str) -> None:
    service = elsewhere.start(serve_until_stopped, mode, PATIENCE)
    stopped = answered_when_stopped(elsewhere, service)
    with tb.Client("echo", timeout=PATIENCE) as client:
        assert client.call_sync("stop") == "stop"
    stopped.signal(signal.SIGCONT)
    assert stopped.hear() == "wait"
    service.finish()


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_the_end_of_a_service_does_not_wait_long_for_a_stopped_client(
    elsewhere: Elsewhere, mode: str
) -> None:
    service = elsewhere.start(serve_until_stopped, mode, 0.1)
    stopped = answered_when_stopped(elsewhere, service)
    with tb.Client("echo", timeout=PATIENCE) as client:
        assert client.call_sync("stop") == "stop"
    service.finish()
    stopped.kill()


def test_a_callback_that_stops_its_node_is_answered(run: Run) -> None:
    async def main() -> None:
        with tb.Client("last", timeout=PATIENCE) as client:
            for number in range(20):
                async with tb.Node("node") as node:
                    node.create_service("last", callback=lambda x, node=node: (node.stop(), x)[1])
                    async with running(node):
                        assert await client.call_async(number) == number

    run(main())


def serve_many(at_once: int) -> None:
    """Answers all that wait when it hears so; its descriptors to anybody else."""
    answers._MAX_PENDING = 4
    answer = asyncio.Event()
    asked = 0

    async def wait(request: object) -> object:
        nonlocal asked
        if request == "files":
            return open_files()
        if request == "answer":
            answer.set()
            return None
        asked += 1
        if asked == at_once:
            tell("asked")
        await answer.wait()
        return request

    async def main() -> None:
        async with tb.Node("server") as node:
            node.create_service("many", callback=wait, concurrency=at_once + 1)
            await node.run()

    asyncio.run(main())


def ask_many(at_once: int) -> None:
    async def main() -> None:
        with tb.Client("many", timeout=PATIENCE) as client:
            tell(await asyncio.gather(*map(client.call, range(at_once))))

    asyncio.run(main())


def test_answers_to_a_stopped_client_take_few_descriptors_and_all_arrive(
    elsewhere: Elsewhere,
) -> None:
    many = 100
    service = elsewhere.start(serve_many, many)
    with tb.Client("many", timeout=PATIENCE) as client:
        before = client.call_sync("files")
        stopped = elsewhere.start(ask_many, many)
        assert service.hear() == "asked"
        stopped.stop()
        client.call_sync("answer")
        eventually(lambda: client.call_sync("files") < before + many)
    stopped.signal(signal.SIGCONT)
    assert stopped.hear() == list(range(many))
    service.kill()
