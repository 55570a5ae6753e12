"""Services whose callback gets many requests at once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell, unused
from support.loops import Run
from support.node_runs import running

MODES = pytest.mark.parametrize("mode", ["async", "sync"])
# Only a full batch ends the wait for further requests.
FULL: Any = {"max_wait": PATIENCE}


@asynccontextmanager
async def serving(
    callback: Callable[[Any], Any], mode: Any, **options: Any
) -> AsyncIterator[tuple[tb.Service, tb.Client]]:
    async with tb.Node("node") as node:
        service = node.create_service("batched", callback=callback, mode=mode, **options)
        async with running(node):
            yield service, node.create_client("batched", timeout=PATIENCE)


def outcomes_of(
    run: Run, callback: Callable[[Any], Any], mode: str, requests: list[Any], **options: Any
) -> list[Any]:
    """The replies, or exceptions, of requests that are one batch."""
    options = {"batch": len(requests), **FULL, **options}

    async def main() -> list[Any]:
        async with serving(callback, mode, **options) as (_, client):
            calls = (client.call_async(request) for request in requests)
            return await asyncio.gather(*calls, return_exceptions=True)

    outcomes: list[Any] = run(main())
    return outcomes


# What the callback gets and returns.


@MODES
def test_requests_are_stacked_and_each_caller_gets_its_row(run: Run, mode: str) -> None:
    shapes: list[Any] = []

    def double(batch: Any) -> Any:
        shapes.append(batch.shape)
        return batch * 2

    requests = [np.full((2, 3), number) for number in range(4)]
    replies = outcomes_of(run, double, mode, requests)
    assert shapes == [(4, 2, 3)]
    assert all(
        (reply == 2 * request).all() for reply, request in zip(replies, requests, strict=True)
    )


def test_a_callback_may_be_awaited(run: Run) -> None:
    async def double(batch: Any) -> Any:
        await asyncio.sleep(0)
        return batch * 2

    assert outcomes_of(run, double, "async", [np.ones(1), np.zeros(1)]) == [2, 0]


@MODES
def test_dicts_are_stacked_value_by_value(run: Run, mode: str) -> None:
    def answer(batch: Any) -> Any:
        assert batch["x"].shape == (2, 3)
        return {"sum": batch["x"].sum(axis=1), "id": batch["id"]}

    requests = [{"x": np.full(3, number), "id": str(number)} for number in range(2)]
    assert outcomes_of(run, answer, mode, requests) == [
        {"sum": 0, "id": "0"},
        {"sum": 3, "id": "1"},
    ]


@MODES
def test_tensors_of_torch_are_stacked(run: Run, mode: str, torch: ModuleType) -> None:
    requests = [torch.full((3,), number) for number in range(3)]
    replies = outcomes_of(run, lambda batch: batch.sum(1), mode, requests)
    assert [int(reply) for reply in replies] == [0, 3, 6]


def test_typed_requests_are_a_list_and_replies_are_checked(run: Run) -> None:
    def answer(batch: list[Any]) -> list[Any]:
        assert all(type(each) is tb.IntMessage for each in batch)
        return [tb.StringMessage(str(each.data)) if each.data else 7 for each in batch]

    async def main() -> None:
        async with tb.Node("node") as node:
            types = tb.IntMessage, tb.StringMessage
            node.create_service("batched", *types, callback=answer, batch=2, **FULL)
            async with running(node):
                client = node.create_client("batched", *types, timeout=PATIENCE)
                calls = (client.call_async(tb.IntMessage(number)) for number in range(2))
                bad, good = await asyncio.gather(*calls, return_exceptions=True)
                assert isinstance(bad, tb.ServiceError)
                assert good == tb.StringMessage("1")

    run(main())


# Errors.


@MODES
def test_an_exception_among_the_replies_reaches_its_own_caller(
    run: Run, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(batch: list[Any]) -> list[Any]:
        return [LookupError("no such") if each == "bad" else each for each in batch]

    one, bad, two = outcomes_of(run, answer, mode, ["one", "bad", "two"])
    assert (one, two) == ("one", "two")
    assert isinstance(bad, tb.ServiceError)
    assert "LookupError: no such" in str(bad)
    assert caplog.text.count("service 'batched': LookupError") == 1


@MODES
@pytest.mark.parametrize(
    ("returned", "text"), [([1], "1 results for a batch of 2"), (None, "None for a batch")]
)
def test_a_wrong_number_of_replies_is_an_error_that_says_so(
    run: Run, mode: str, returned: Any, text: str
) -> None:
    for error in outcomes_of(run, lambda _: returned, mode, [1, 2]):
        assert isinstance(error, tb.ServiceError)
        assert text in str(error)


@MODES
def test_an_exception_of_the_callback_reaches_all_callers_of_the_batch(
    run: Run, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Any) -> Any:
        raise LookupError("no model")

    for error in outcomes_of(run, fail, mode, [1, 2, 3]):
        assert isinstance(error, tb.ServiceError)
        assert "in fail" in str(error.__cause__)
    assert caplog.text.count("service 'batched': LookupError") == 1


@MODES
def test_a_reply_that_cannot_be_sent_is_an_error_of_its_own_caller(run: Run, mode: str) -> None:
    def answer(batch: list[int]) -> list[Any]:
        return [each if each == 1 else object() for each in batch]  # they come in any order

    good, bad = outcomes_of(run, answer, mode, [1, 2])
    assert good == 1
    assert isinstance(bad, tb.ServiceError)
    assert "Unsupported" in str(bad)


def test_a_request_of_another_type_is_refused_and_not_part_of_the_batch(run: Run) -> None:
    seen: list[int] = []

    def answer(batch: list[Any]) -> list[Any]:
        seen.append(len(batch))
        return batch

    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("batched", tb.IntMessage, callback=answer, batch=2, **FULL)
            async with running(node):
                right = node.create_client("batched", tb.IntMessage, timeout=PATIENCE)
                wrong = node.create_client("batched", tb.StringMessage, timeout=PATIENCE)
                replies = await asyncio.gather(
                    right.call_async(tb.IntMessage(1)),
                    wrong.call_async(tb.StringMessage("1")),
                    return_exceptions=True,
                )
                assert replies[0] == tb.IntMessage(1)
                assert isinstance(replies[1], tb.TypeMismatch)

    run(main())
    assert seen == [1]


def test_exit_in_a_batch_answers_all_callers_and_ends_the_node() -> None:
    errors: list[Any] = []

    def leave(_: Any) -> Any:
        raise SystemExit(3)

    def call(client: tb.Client) -> None:
        try:
            client.call_sync(1)
        except tb.ServiceError as error:
            errors.append(error)

    with tb.Node("node") as node, tb.Client("batched", timeout=PATIENCE) as client:
        node.create_service("batched", callback=leave, batch=2, mode="sync", **FULL)
        callers = [threading.Thread(target=call, args=(client,)) for _ in range(2)]
        for caller in callers:
            caller.start()
        with pytest.raises(SystemExit):
            node.spin(PATIENCE)
        for caller in callers:
            caller.join()
    assert len(errors) == 2


def test_nonsense_is_refused() -> None:
    with tb.Node("node") as node:
        for wrong in ({"batch": 0}, {"max_wait": 1.0}, {"batch": 2, "max_wait": None}):
            options: Any = wrong
            with pytest.raises(tb.InvalidArgument):
                node.create_service("batched", callback=list, **options)
        node.create_service("batched", callback=list, batch=1, mode="sync")


# When a batch goes.


@MODES
def test_a_batch_that_is_not_full_goes_after_its_wait(run: Run, mode: str) -> None:
    async def main() -> None:
        async with serving(len_of_each, mode, batch=8, max_wait=0.01) as (service, client):
            assert await client.call_async(1) == 1
            assert service.calls == 1

    run(main())


def len_of_each(batch: list[Any]) -> list[int]:
    return [len(batch)] * len(batch)


@contextmanager
def held() -> Iterator[tuple[Callable[[Any], Any], threading.Event, threading.Event]]:
    """A callback that waits in its first call, and the events of that."""
    inside, go_on = threading.Event(), threading.Event()

    def answer(batch: list[Any]) -> list[Any]:
        if not inside.is_set():
            inside.set()
            assert go_on.wait(PATIENCE)
        return len_of_each(batch)

    try:
        yield answer, inside, go_on
    finally:
        go_on.set()


def test_requests_that_come_while_the_callback_runs_are_one_batch() -> None:
    replies: list[int] = []

    def call() -> None:
        replies.append(client.call_sync(1))

    with (
        held() as (answer, inside, go_on),
        tb.Node("node") as node,
        tb.Client("batched", timeout=PATIENCE) as client,
    ):
        service = node.create_service("batched", callback=answer, batch=8, mode="sync")
        node.spin(0)
        callers = [threading.Thread(target=call) for _ in range(6)]
        callers[0].start()
        assert inside.wait(PATIENCE)
        for caller in callers[1:]:
            caller.start()
        eventually(lambda: service._queue.stats.items == 5)
        go_on.set()
        for caller in callers:
            caller.join()
    assert sorted(replies) == [1, 5, 5, 5, 5, 5]


@MODES
def test_several_batches_at_once_share_the_requests_in_full_batches(run: Run, mode: str) -> None:
    async def main() -> None:
        options = {"batch": 4, "concurrency": 3, "max_wait": PATIENCE}
        async with serving(len_of_each, mode, **options) as (_, client):
            assert await asyncio.gather(*map(client.call_async, range(24))) == [4] * 24

    run(main())


@MODES
def test_the_end_of_a_node_ends_the_wait_for_a_full_batch(run: Run, mode: str) -> None:
    async def main() -> None:
        async with serving(len_of_each, mode, batch=8, **FULL) as (service, client):
            call = asyncio.ensure_future(client.call_async(1))
            while service._queue.stats.unfinished == 0:
                await asyncio.sleep(0.001)
        with pytest.raises(tb.Closed):
            await call

    run(main())


# Clients that end.


def call_twice() -> None:
    with tb.Client("batched", timeout=PATIENCE) as client:
        for _ in range(2):
            tell(client.call_sync(np.ones(3)))
        hear()
        client.call_sync(np.ones(3))


@MODES
def test_a_caller_that_was_killed_is_not_part_of_a_batch(elsewhere: Elsewhere, mode: Any) -> None:
    """The other process is killed while its third call waits for the callback of another."""

    async def main() -> None:
        inside, go_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        sizes: list[int] = []

        async def answer(batch: Any) -> Any:
            sizes.append(len(batch))
            if batch.shape[1] == 1:
                inside.set()
                await go_on.wait()
            return [int(batch.shape[1])] * len(batch)

        def answer_sync(batch: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(answer(batch), loop).result()

        callback = answer if mode == "async" else answer_sync
        async with serving(callback, mode, batch=8) as (service, client):
            caller = elsewhere.start(call_twice)
            for _ in range(2):
                assert await asyncio.to_thread(caller.hear) == 3
            holding = asyncio.ensure_future(client.call_async(np.ones(1)))
            await inside.wait()
            caller.tell("call")
            while service._queue.stats.items == 0:
                await asyncio.sleep(0.001)
            caller.kill()
            last = asyncio.ensure_future(client.call_async(np.ones(2)))
            while service._queue.stats.items == 1 or not gone(service):
                await asyncio.sleep(0.001)
            go_on.set()
            assert (await holding, await last) == (1, 2)
        assert sizes == [1, 1, 1, 1]

    asyncio.run(main())
    unused()


def gone(service: tb.Service) -> bool:
    """Whether the service has received the end of a caller."""
    return any(end.answered for end in service._answers._ends.values())


def call_for_ever() -> None:
    with tb.Client("batched", timeout=PATIENCE) as client:
        tell("ready")
        while True:
            client.call_sync(np.ones(2000))


def test_callers_that_are_killed_disturb_no_other(elsewhere: Elsewhere) -> None:
    replies: list[Any] = []

    def call() -> None:
        for number in range(100):
            replies.append(client.call_sync(np.full(2000, number))[0] - number)

    def double(batch: Any) -> Any:
        return batch * 2 - batch if batch.ndim == 2 else [each * 1 for each in batch]

    with tb.Node("node") as node, tb.Client("batched", timeout=PATIENCE) as client:
        options: Any = {"batch": 4, "max_wait": 0.002, "mode": "sync", "concurrency": 2}
        node.create_service("batched", callback=double, **options)
        node.spin(0)
        callers = [threading.Thread(target=call) for _ in range(3)]
        for caller in callers:
            caller.start()
        for _ in range(3):
            victim = elsewhere.start(call_for_ever)
            assert victim.hear() == "ready"
            victim.signal(signal.SIGSTOP)
            victim.kill()
        for caller in callers:
            caller.join()
    assert replies == [0] * 300
    unused()


@MODES
def test_the_block_lies_in_shared_memory(run: Run, mode: str) -> None:
    """So a callback may pass it to a pool, or publish it, without a copy."""

    def answer(batch: Any) -> Any:
        with tb.Queue() as queue:
            before = tb.participant().arena["used_bytes"]
            queue.put(batch)
            assert tb.participant().arena["used_bytes"] - before < batch.nbytes
            assert (queue.get() == batch).all()
        return batch

    requests = [np.full(5000, number) for number in range(2)]
    for reply, request in zip(outcomes_of(run, answer, mode, requests), requests, strict=True):
        assert (reply == request).all()
