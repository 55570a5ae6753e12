"""Services that refuse requests: the client is told, and the service goes on without a report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.node_runs import running
from support.queues.pools import QUICK

MODES = pytest.mark.parametrize("mode", ["async", "sync"])


class Busy(tb.Refused):
    pass


def answers(
    callback: Callable[[Any], Any],
    requests: list[Any],
    on_error: Any = "raise",
    **options: Any,
) -> list[Any]:
    """The replies, or exceptions, of calls at once; then the service still serves."""

    async def main() -> list[Any]:
        async with tb.Node("node", on_error=on_error) as node:
            node.create_service("refusing", callback=callback, **options)
            async with running(node):
                client = node.create_client("refusing", timeout=PATIENCE)
                calls = (client.call_async(request) for request in requests)
                found = await asyncio.gather(*calls, return_exceptions=True)
                assert await client.call_async("served") == "served"
                return found

    return asyncio.run(main())


def checked(request: Any) -> Any:
    if request == "refuse":
        raise tb.Refused("no more of these")
    if request == "busy":
        raise Busy("caf\u00e9")
    return request


def checked_batch(batch: list[Any]) -> list[Any]:
    found: list[Any] = []
    for request in batch:
        try:
            found.append(checked(request))
        except tb.Refused as refusal:
            found.append(refusal)
    return found


def check_refusals(refused: Any, busy: Any) -> None:
    assert type(refused) is type(busy) is tb.ServiceError
    assert (refused.kind, refused.text) == ("Refused", "no more of these")
    assert str(refused) == "service 'refusing' refused the request: no more of these"
    assert (busy.kind, busy.text) == ("Busy", "caf\u00e9")
    assert refused.__cause__ is busy.__cause__ is None


@MODES
def test_a_refusal_reaches_the_client_and_is_not_logged(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    refused, busy, reply = answers(checked, ["refuse", "busy", 7], mode=mode)
    check_refusals(refused, busy)
    assert reply == 7
    assert [record for record in caplog.records if record.name.startswith("tensorbus")] == []


@MODES
def test_a_callback_of_batches_refuses_one_request_or_all(mode: str) -> None:
    options: Any = {"mode": mode, "batch": 3, "max_wait": 0.01}
    refused, reply, busy = answers(checked_batch, ["refuse", 7, "busy"], **options)
    check_refusals(refused, busy)
    assert reply == 7

    def refuse_all(batch: list[Any]) -> list[Any]:
        if "served" not in batch:
            raise tb.Refused("no more of these")
        return batch

    for error in answers(refuse_all, [1, 2], **options):
        assert (type(error), error.kind) == (tb.ServiceError, "Refused")


def test_a_refusal_of_a_worker_pools_function_is_one_of_the_service() -> None:
    with tb.WorkerPool(checked, workers=1, **QUICK) as pool:

        async def callback(request: Any) -> Any:
            return await asyncio.wrap_future(pool.submit(request))

        check_refusals(*answers(callback, ["refuse", "busy"], concurrency=2))


def test_another_error_is_reported_as_before(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: Any) -> Any:
        if request == "missing":
            raise LookupError(request)
        return request

    (error,) = answers(fail, ["missing"], on_error="log")
    assert (type(error), error.kind) == (tb.ServiceError, "LookupError")
    assert [record.levelname for record in caplog.records] == ["ERROR"]
