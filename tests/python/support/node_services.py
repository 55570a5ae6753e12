"""Servers that the tests of services start in another process."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

import tensorbus as tb
from support.access import is_borrowed
from support.harness import tell


def serve_arrays(mode: Any) -> None:
    def negate(request: dict[str, Any]) -> dict[str, Any]:
        result = tb.empty(like=request["x"])
        np.negative(request["x"], out=result)
        return {"x": result, "copied": not is_borrowed(request["x"])}

    async def main() -> None:
        async with tb.Node("server") as node:
            node.create_service("negate", callback=negate)
            await node.run()

    if mode == "async":
        tb.run(main())
    with tb.Node("server") as node:
        node.create_service("negate", callback=negate, mode="sync", concurrency=2)
        node.spin()


def serve_until_killed() -> None:
    async def main() -> None:
        async def wait(request: object) -> object:
            if request == "wait":
                tell("asked")
                await asyncio.Event().wait()
            return request

        async with tb.Node("server") as node:
            node.create_service("fragile", callback=wait)
            tell("ready")
            await node.run()

    tb.run(main())


def serve_names(mark: str) -> None:
    """Answers every request with its name, "wait" never."""

    async def main() -> None:
        async def answer(request: object) -> object:
            if request == "wait":
                tell("asked")
                await asyncio.Event().wait()
            return mark

        async with tb.Node("server") as node:
            node.create_service("named", callback=answer, concurrency=8)
            running = asyncio.ensure_future(node.run())
            tell("ready")
            await running

    tb.run(main())
