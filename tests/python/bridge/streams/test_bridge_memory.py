"""A bridge that lacks memory or descriptors for a moment: what has failed then is there again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.bridge.bridges import machines
from support.harness import PATIENCE

# The bridge, in which something fails with the first call.
FAILS_ONCE = """
import importlib
import sys
from tensorbus import OutOfMemory
from tensorbus._cli.command import main

module, name, method = sys.argv.pop(1).split(":")
module = importlib.import_module(module)
real = getattr(module, name)
calls = []

def fail_once(call):
    def failing(*arguments, **options):
        calls.append(call)
        if len(calls) == 1:
            raise OutOfMemory("injected")
        return call(*arguments, **options)
    return failing

class Failing:
    def __init__(self, *arguments, **options):
        self._real = real(*arguments, **options)
        setattr(self, method, fail_once(getattr(self._real, method)))

    def __getattr__(self, name):
        return getattr(self._real, name)

setattr(module, name, Failing if method else fail_once(real))
sys.exit(main(sys.argv[1:]))
"""


def failing(module: str, name: str, method: str = "") -> list[str]:
    """The program of a bridge in which a class of a module, or its method, fails once."""
    return [sys.executable, "-c", FAILS_ONCE, f"tensorbus.{module}:{name}:{method}"]


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("here", ("bridge._topics.exports", "Export")),
        ("here", ("_core", "Subscriber", "try_receive")),
        ("there", ("bridge._topics.mirrors", "Mirror")),
    ],
    ids=str,
)
def test_a_topic_is_there_again(tmp_path: Path, where: str, what: tuple[str, ...]) -> None:
    with machines(tmp_path, "here", "there") as (here, there):
        (here if where == "here" else there).program = failing(*what)
        here.start("--listen", here.address)
        there.start("--connect", here.address)
        with (
            tb.Publisher[Any]("data", reliable=True, domain=here.domain) as publisher,
            tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber,
        ):
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(20):
                publisher.publish(number)
                assert subscriber.receive().data == number
            assert subscriber.stats["missed"] == 0
        assert "injected" in here.output + there.output


def test_a_service_is_there_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with tb.Node("server", domain=here.domain) as node:
            node.create_service("double", callback=double)
            running = asyncio.ensure_future(node.run())
            with tb.Client[Any, Any]("double", domain=there.domain, timeout=PATIENCE) as client:
                assert await client.call_async(2) == 4
            running.cancel()
            await asyncio.wait([running])

    async def double(number: int) -> int:
        return 2 * number

    with machines(tmp_path, "here", "there") as (here, there):
        there.program = failing("bridge._services.mirror", "ServiceMirror")
        here.start("--listen", here.address)
        there.start("--connect", here.address)
        there.wait_for_peer("here")
        asyncio.run(test())
        assert "injected" in there.output
