"""Services whose callbacks raise what is hard to send: their clients are answered all the same."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

import pytest

import tensorbus as tb
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
    assert r"ValueError: cannot open caf\udce9.png" in str(error.__cause__)
    assert reply == 7
    assert logged == [r"node 'node', service 'image': ValueError: cannot open caf\udce9.png"]


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_an_exception_may_have_no_text(mode: str, logged: list[str]) -> None:
    error, reply = ask(mode, open_image, "unprintable", 7)
    assert isinstance(error, tb.ServiceError)
    assert str(error) == "service 'image' raised Unprintable: (its text raises RuntimeError)"
    assert reply == 7
    assert logged == ["node 'node', service 'image': Unprintable: (its text raises RuntimeError)"]
