"""Services whose callbacks raise what is hard to send: their clients are answered all the same."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tensorbus as tb
from support.bridge.bridge_queues import in_thread
from support.harness import PATIENCE
from support.node_runs import running


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def open_image(request: object) -> object:
    if request == "open":
        raise ValueError("cannot open " + os.fsdecode(b"caf\xe9.png"))
    if request == "unprintable":
        raise Unprintable
    return request


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What nodes log. Not by caplog: tracebacks have surrogates, which pytest-xdist cannot send."""
    texts: list[str] = []

    def take(record: logging.LogRecord) -> bool:
        texts.append(record.getMessage())
        return False

    monkeypatch.setattr(logging.getLogger("tensorbus.node"), "filters", [take])
    return texts


def ask(mode: Any, callback: Callable[[object], object], *requests: object) -> list[object]:
    """What a client of a service with this callback gets for each: a reply, or an error."""
    found: list[object] = []

    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("image", callback=callback, mode=mode)
            async with running(node):
                client = node.create_client("image", timeout=PATIENCE)
                for request in requests:
                    try:
                        found.append(await client.call_async(request))
                    except tb.Error as error:
                        found.append(error)

    asyncio.run(main())
    return found


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_the_text_of_an_exception_may_have_a_lone_surrogate(mode: str, logged: list[str]) -> None:
    error, reply = ask(mode, open_image, "open", 7)
    assert isinstance(error, tb.ServiceError)
    assert str(error) == r"service 'image' raised ValueError: cannot open caf\udce9.png"
    assert (error.kind, error.text) == ("ValueError", r"cannot open caf\udce9.png")
    assert r"ValueError: cannot open caf\udce9.png" in str(error.__cause__)
    assert reply == 7
    assert logged == [r"node 'node', service 'image': ValueError: cannot open caf\udce9.png"]


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_cancelled_error_of_a_callback_is_answered(mode: str, logged: list[str]) -> None:
    def callback(request: object) -> object:
        if request == "raise":
            raise asyncio.CancelledError("by a task of a pool")
        return request

    error, reply = ask(mode, callback, "raise", 7)
    assert isinstance(error, tb.ServiceError)
    assert str(error) == "service 'image' raised CancelledError: by a task of a pool"
    assert reply == 7
    assert len(logged) == 1


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_an_exception_may_have_no_text(mode: str, logged: list[str]) -> None:
    error, reply = ask(mode, open_image, "unprintable", 7)
    assert isinstance(error, tb.ServiceError)
    assert str(error) == "service 'image' raised Unprintable: (its text raises RuntimeError)"
    assert reply == 7
    assert logged == ["node 'node', service 'image': Unprintable: (its text raises RuntimeError)"]


def test_a_synchronous_callback_that_exits_ends_its_node_and_the_client_is_answered() -> None:
    def leave(request: object) -> object:
        sys.exit(3)

    with tb.Node("node") as node, tb.Client("leaves", timeout=PATIENCE) as client:
        node.create_service("leaves", callback=leave, mode="sync")
        calling = in_thread(lambda: client.call_sync(1))
        with pytest.raises(SystemExit, match="3"):
            node.spin(PATIENCE)
        with pytest.raises(tb.ServiceError, match="service 'leaves' raised SystemExit: 3"):
            calling.result(PATIENCE)


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_callback_that_exits_in_an_event_loop_ends_its_node(mode: Any) -> None:
    def leave(request: object) -> object:
        sys.exit(3)

    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("leaves", callback=leave, mode=mode)
            asyncio.get_running_loop().call_later(PATIENCE, node.stop)
            await node.run()

    with tb.Client("leaves", timeout=PATIENCE) as client:
        calling = in_thread(lambda: client.call_sync(1))
        with pytest.raises(SystemExit, match="3"):
            asyncio.run(main())
        with pytest.raises(tb.ServiceError, match="service 'leaves' raised SystemExit: 3"):
            calling.result(PATIENCE)
