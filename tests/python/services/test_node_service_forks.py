"""Clients of services on both sides of a fork."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, in_a_fork
from support.node_services import serve_names


def test_a_forked_child_and_its_parent_get_their_own_replies(elsewhere: Elsewhere) -> None:
    server = elsewhere.start(serve_names, "one")
    assert server.hear() == "ready"
    outcome: list[object] = []
    reading, writing = os.pipe()

    def wait() -> None:
        os.read(reading, 1)  # the child has been forked
        try:
            outcome.append(client.call_sync("wait"))
        except tb.Closed as error:
            outcome.append(type(error))

    def call_while_the_parent_waits() -> None:
        os.write(writing, b"x")
        assert server.hear() == "asked"
        assert client.call_sync(1, timeout=PATIENCE / 3) == "one"

    with tb.Client("named") as client:
        assert client.call_sync(0) == "one"
        thread = threading.Thread(target=wait)
        thread.start()
        in_a_fork(call_while_the_parent_waits)
        assert outcome == []
        server.kill()
        thread.join(PATIENCE)
    assert outcome == [tb.Closed]


def test_a_child_that_is_forked_during_a_look_makes_its_own() -> None:
    def wait() -> None:
        with pytest.raises(tb.Closed):
            asyncio.run(client.call_async(1))

    def call_in_the_child() -> None:
        async def call() -> None:
            with pytest.raises(tb.Timeout, match="there was no service"):
                await asyncio.wait_for(client.call_async(1, timeout=0.1), PATIENCE / 3)

        asyncio.run(call())

    with tb.Client("none") as client:
        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: client._finder._running_search is not None)
        in_a_fork(call_in_the_child)
    thread.join(PATIENCE)
    assert not thread.is_alive()
