"""Services: requests and replies between nodes."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import tensorbus as tb
from support.access import is_borrowed
from support.harness import PATIENCE, Elsewhere, hear, tell, unused
from support.loops import Run, started
from support.node_runs import running
from support.node_services import serve_arrays


def test_a_reply_is_what_the_callback_returns(run: Run) -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return number * 2

    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("add", callback=sum)
            node.create_service("double", callback=double)
            async with running(node):
                add = node.create_client("add", timeout=PATIENCE)
                assert await add.call_async([1, 2, 3]) == 6
                assert await node.create_client("double").call_async(4, timeout=PATIENCE) == 8

    run(main())


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_arrays_go_by_reference_both_ways_between_processes(
    elsewhere: Elsewhere, mode: str
) -> None:
    other = elsewhere.start(serve_arrays, mode)
    image = tb.empty(5000, "float32")
    image[:] = np.arange(5000)
    with tb.Client("negate", timeout=PATIENCE) as client:
        for _ in range(3):
            reply = client.call_sync({"x": image})
            assert np.array_equal(reply["x"], -image)
            assert is_borrowed(reply["x"])
            assert not reply["copied"]
        assert asyncio.run(client.call_async({"x": image}))["x"][1] == -1
    other.kill()
    assert np.array_equal(reply["x"], -image)  # what came stays
    del reply, image
    unused()


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_the_first_request_of_all_may_be_what_a_third_process_has_lent(
    elsewhere: Elsewhere, kind: str
) -> None:
    def lend() -> None:
        with tb.share(np.arange(1000.0)) as shared:
            tell(str(shared.handle))
            hear()

    lender = elsewhere.start(lend)
    lent = tb.attach(lender.hear(), timeout=PATIENCE)
    for mode in ("async", "sync"):
        server = elsewhere.start(serve_arrays, mode)
        with tb.Client("negate", timeout=PATIENCE) as client:
            ask = (
                client.call_sync if kind == "sync" else lambda x: asyncio.run(client.call_async(x))
            )
            assert np.array_equal(ask({"x": lent})["x"], -lent)
        server.kill()
    lender.tell("exit")


def test_an_exception_comes_back_with_its_traceback_and_the_service_goes_on(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    def divide(numbers: list[int]) -> float:
        return numbers[0] / numbers[1]

    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("divide", callback=divide)
            async with running(node):
                client = node.create_client("divide", timeout=PATIENCE)
                with pytest.raises(tb.ServiceError, match="'divide' raised ZeroDiv") as caught:
                    await client.call_async([1, 0])
                assert "in divide\n" in str(caught.value.__cause__)
                with pytest.raises(tb.ServiceError, match="'divide' raised TypeError"):
                    await client.call_async(7)
                assert await client.call_async([1, 2]) == 0.5

    run(main())
    assert "node 'node', service 'divide': ZeroDivisionError" in caplog.text


def test_a_service_that_is_not_there_or_does_not_answer_is_a_timeout(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            client = node.create_client("waits", timeout=0.02)
            with pytest.raises(tb.Timeout, match="no service 'waits'"):
                await client.call_async(1)
            with pytest.raises(TimeoutError):
                client.call_sync(1)
            assert not await client.wait_for_service_async(timeout=0.01)
            node.create_service("waits", callback=lambda _: asyncio.sleep(PATIENCE))
            assert await client.wait_for_service_async(timeout=PATIENCE)
            async with running(node):
                with pytest.raises(tb.Timeout, match="has not answered in time"):
                    await client.call_async(1)

    run(main())


def test_a_late_answer_is_not_that_of_the_next_call(run: Run) -> None:
    async def main() -> None:
        late = asyncio.Event()

        async def echo(number: int) -> int:
            if number == 0:
                await late.wait()
            return number

        async with tb.Node("node") as node:
            service = node.create_service("echo", callback=echo)
            async with running(node):
                client = node.create_client("echo")
                with pytest.raises(tb.Timeout):
                    await client.call_async(0, timeout=0.02)
                calling = await started(client.call_async(1, timeout=PATIENCE))
                late.set()
                assert await calling == 1
                assert service.calls == 2

    run(main())


def test_calls_under_way_at_once_get_their_own_answers(run: Run) -> None:
    async def main() -> None:
        at_once, most = 0, 0

        async def echo(number: int) -> int:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.001 * (number % 3))
            at_once -= 1
            return number

        async with tb.Node("node") as node:
            node.create_service("echo", callback=echo, concurrency=4)
            async with running(node):
                clients = [node.create_client("echo", timeout=PATIENCE) for _ in range(3)]
                calls = [clients[i % 3].call_async(i) for i in range(30)]
                assert await asyncio.gather(*calls) == list(range(30))
        assert most == 4

    run(main())


def test_threads_share_a_client() -> None:
    answers: list[list[int]] = []

    def ask(first: int) -> None:
        answers.append([client.call_sync(first + i) for i in range(20)])

    with tb.Node("node") as node, tb.Client("echo", timeout=PATIENCE) as client:
        node.create_service("echo", callback=lambda x: x, mode="sync", concurrency=2)
        node.spin(0)
        threads = [threading.Thread(target=ask, args=(100 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [list(range(100 * i, 100 * i + 20)) for i in range(4)]


def test_a_closed_client_calls_no_more() -> None:
    client = tb.Client("echo")
    client.close()
    client.close()
    with pytest.raises(tb.Closed, match="client of service 'echo' is closed"):
        client.call_sync(1)
    assert repr(client) == "<tensorbus.Client 'echo' closed>"


def test_replies_may_be_written_to_unless_they_are_for_reading_alone(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(serve_arrays, "sync")
    image = tb.empty(5000, "float32")
    image[:] = 1
    for access in (None, "copy-on-write", "private"):
        with tb.Client("negate", timeout=PATIENCE, access=access) as client:
            for _ in range(2):
                reply = client.call_sync({"x": image})["x"]
                reply += 5
                assert np.all(reply == 4)
                assert np.all(image == 1)
    with tb.Client("negate", timeout=PATIENCE, access="read") as client:
        assert not client.call_sync({"x": image})["x"].flags.writeable
    other.kill()
    with pytest.raises(tb.InvalidArgument, match="access='shared'"):
        tb.Client("negate", access="shared")
    with tb.Node("node") as node, pytest.raises(tb.InvalidArgument, match="access='shared'"):
        node.create_client("negate", access="shared")


def test_a_node_offers_a_service_once() -> None:
    """Two would share the calls at random."""
    with tb.Node("node") as node:
        service = node.create_service("twice", callback=len, mode="sync")
        with pytest.raises(tb.InvalidArgument, match="node 'node' offers service 'twice' already"):
            node.create_service("twice", callback=sum, mode="sync")
        service.close()
        node.create_service("twice", callback=sum, mode="sync")
        with tb.Node("other") as other:
            other.create_service("twice", callback=sum, mode="sync")


def test_a_name_has_a_character() -> None:
    with pytest.raises(tb.InvalidArgument, match="must not be empty"):
        tb.Client("")


def test_a_callback_in_place_of_a_type_is_refused() -> None:
    with (
        tb.Node("node") as node,
        pytest.raises(tb.InvalidArgument, match="A callback is given as callback="),
    ):
        node.create_service("service", lambda request: request)  # type: ignore[arg-type]


def test_the_error_about_what_cannot_be_sent_names_its_place_in_the_message() -> None:
    with tb.Node("node") as node:
        node.create_service("same", callback=lambda request: [len], mode="sync")
        node.spin(timeout=0)
        client = node.create_client("same", timeout=PATIENCE)
        with pytest.raises(tb.Unsupported, match=r"^data\['a'\]\[1\]: builtins\.function"):
            client.call_sync({"a": [1, lambda: 1]})
        with pytest.raises(tb.ServiceError, match=r": data\[0\]: builtins\.builtin_function"):
            client.call_sync(1)
