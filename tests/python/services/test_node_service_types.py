"""Services of declared types, and what cannot travel, or is no request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.loops import Run
from support.node_runs import becomes, running
from tensorbus._services import calls


@dataclass
class Ask(tb.Message, name="test.Ask"):
    numbers: np.ndarray
    scale: float = 1.0


@dataclass
class Told(tb.Message, name="test.Told"):
    total: float


def test_typed_requests_and_replies_are_checked_on_both_sides(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service(
                "total", Ask, Told, lambda ask: Told(float(ask.numbers.sum() * ask.scale))
            )
            node.create_service("wrong", Ask, Told, lambda ask: ask)
            async with running(node):
                client = node.create_client("total", Ask, Told, timeout=PATIENCE)
                assert await client.call_async(Ask(np.ones(3), 2.0)) == Told(6.0)
                with pytest.raises(tb.MessageError, match=r"Ask\.scale: expected float, got str"):
                    await client.call_async(Ask(np.ones(3), "high"))  # type: ignore[arg-type]
                untyped = node.create_client("total", timeout=PATIENCE)
                assert await untyped.call_async({"numbers": np.ones(2)}) == {"total": 2.0}
                with pytest.raises(tb.ServiceError, match="MessageError"):
                    await untyped.call_async({"scale": 1.0})
                with pytest.raises(tb.ServiceError, match=r"expected test\.Told"):
                    await node.create_client("wrong", Ask, Told).call_async(
                        Ask(np.ones(1)), PATIENCE
                    )

    run(main())


def test_a_client_of_other_types_is_told_both(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("total", Ask, Told, lambda ask: Told(0.0))
            async with running(node):
                client = node.create_client("total", tb.IntMessage, Told)
                with pytest.raises(tb.TypeMismatch, match="request") as caught:
                    await client.call_async(tb.IntMessage(1), PATIENCE)
                assert "tensorbus.IntMessage" in str(caught.value)
                assert "test.Ask\nnumbers: array" in str(caught.value)
                client = node.create_client("total", Ask, tb.IntMessage)
                with pytest.raises(tb.TypeMismatch, match="reply"):
                    await client.call_async(Ask(np.ones(1)), PATIENCE)

    run(main())


def test_what_cannot_travel_is_refused_to_who_sends_it(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("any", callback=lambda _: object())
            async with running(node):
                client = node.create_client("any", timeout=PATIENCE)
                with pytest.raises(tb.Unsupported, match="object cannot be sent"):
                    await client.call_async(object())
                with pytest.raises(tb.ServiceError, match="object cannot be sent"):
                    await client.call_async(1)

    run(main())


@pytest.mark.parametrize("options", [{}, {"batch": 2}])
def test_what_is_no_request_is_told_and_left(
    caplog: pytest.LogCaptureFixture, options: dict[str, int]
) -> None:
    async def main() -> None:
        async with tb.Node("node", on_error="raise") as node:
            node.create_service("echo", callback=lambda x: x, **options)
            async with running(node):
                queue = tb.Queue.open("service:echo", timeout=PATIENCE)
                queue.put(np.zeros(3))
                queue.put({"a": 1})
                assert await node.create_client("echo").call_async(1, PATIENCE) == 1
                await becomes(lambda: len(caplog.records) == 2)

    asyncio.run(main())
    assert all(record.levelname == "WARNING" for record in caplog.records)


@pytest.mark.parametrize("options", [{}, {"batch": 2}])
def test_a_made_up_address_for_the_answer_is_told_and_left(
    caplog: pytest.LogCaptureFixture, options: dict[str, int]
) -> None:
    async def main() -> None:
        async with tb.Node("node", on_error="raise") as node:
            node.create_service("echo", callback=lambda x: x, **options)
            client = node.create_client("echo", timeout=PATIENCE)
            async with running(node):
                requests = tb.Queue.open("service:echo", timeout=PATIENCE)
                for address in ("jobs", replies.address[:-1] + other_digit):
                    item = calls.request_item(address, calls.Types(None, None), 1)
                    requests._here.put(*item, None)
                await asyncio.wait_for(until_told(client), PATIENCE)

    async def until_told(client: tb.Client) -> None:
        while len(caplog.records) < 2:  # the second, when the next answer is given
            assert await client.call_async(2) == 2

    with tb.Queue() as replies:
        other_digit = "1" if replies.address[-1] == "0" else "0"
        asyncio.run(main())
        assert replies.empty()
    assert "invalid queue address: it is truncated" in caplog.records[0].message
    assert "invalid queue address: its key is wrong" in caplog.records[1].message


def test_a_service_needs_a_callback_of_its_mode() -> None:
    with tb.Node("node") as node:
        with pytest.raises(tb.InvalidArgument, match="callback=None"):
            node.create_service("echo")
        with pytest.raises(TypeError, match="coroutine function"):
            node.create_service("echo", callback=asyncio.sleep, mode="sync")
        with pytest.raises(tb.InvalidArgument, match="concurrency=0"):
            node.create_service("echo", callback=print, mode="sync", concurrency=0)
