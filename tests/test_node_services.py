"""Services: requests and replies between nodes, whoever fails or dies."""

from __future__ import annotations

import asyncio
import signal
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from harness import PATIENCE, Elsewhere, eventually, hear, tell, unused
from loops import Run, started
from node_runs import becomes, running
from tensorbus.nodes import _calls


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
                assert await add.call([1, 2, 3]) == 6
                assert await node.create_client("double").call(4, timeout=PATIENCE) == 8

    run(main())


def serve_arrays(mode: Any) -> None:
    def negate(request: dict[str, Any]) -> dict[str, Any]:
        result = tb.empty(like=request["x"])
        np.negative(request["x"], out=result)
        return {"x": result, "copied": request["x"].flags.writeable}

    async def main() -> None:
        async with tb.Node("server") as node:
            node.create_service("negate", callback=negate)
            await node.run()

    if mode == "async":
        tb.run(main())
    with tb.Node("server") as node:
        node.create_service("negate", callback=negate, mode="sync", concurrency=2)
        node.spin()


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_arrays_go_by_reference_both_ways_between_processes(
    elsewhere: Elsewhere, mode: str
) -> None:
    other = elsewhere.start(serve_arrays, mode)
    image = tb.empty(1000, "float32")
    image[:] = np.arange(1000)
    with tb.Client("negate", timeout=PATIENCE) as client:
        for _ in range(3):
            reply = client.call_sync({"x": image})
            assert np.array_equal(reply["x"], -image)
            assert not reply["x"].flags.writeable
            assert not reply["copied"]
        assert asyncio.run(client.call({"x": image}))["x"][1] == -1
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
            ask = client.call_sync if kind == "sync" else lambda x: asyncio.run(client.call(x))
            assert np.array_equal(ask({"x": lent})["x"], -lent)
        server.kill()
    lender.tell("exit")


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
                assert await client.call(Ask(np.ones(3), 2.0)) == Told(6.0)
                with pytest.raises(tb.MessageError, match=r"Ask\.scale: expected float, got str"):
                    await client.call(Ask(np.ones(3), "high"))  # type: ignore[arg-type]
                untyped = node.create_client("total", timeout=PATIENCE)
                assert await untyped.call({"numbers": np.ones(2)}) == {"total": 2.0}
                with pytest.raises(tb.ServiceError, match="MessageError"):
                    await untyped.call({"scale": 1.0})
                with pytest.raises(tb.ServiceError, match=r"expected test\.Told"):
                    await node.create_client("wrong", Ask, Told).call(Ask(np.ones(1)), PATIENCE)

    run(main())


def test_a_client_of_other_types_is_told_both(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("total", Ask, Told, lambda ask: Told(0.0))
            async with running(node):
                client = node.create_client("total", tb.IntMessage, Told)
                with pytest.raises(tb.TypeMismatch, match="request") as caught:
                    await client.call(tb.IntMessage(1), PATIENCE)
                assert "tensorbus.IntMessage" in str(caught.value)
                assert "test.Ask\nnumbers: array" in str(caught.value)
                client = node.create_client("total", Ask, tb.IntMessage)
                with pytest.raises(tb.TypeMismatch, match="reply"):
                    await client.call(Ask(np.ones(1)), PATIENCE)

    run(main())


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
                    await client.call([1, 0])
                assert "in divide\n" in str(caught.value.__cause__)
                with pytest.raises(tb.ServiceError, match="'divide' raised TypeError"):
                    await client.call(7)
                assert await client.call([1, 2]) == 0.5

    run(main())
    assert "node 'node', service 'divide': ZeroDivisionError" in caplog.text


def test_what_cannot_travel_is_refused_to_who_sends_it(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("any", callback=lambda _: object())
            async with running(node):
                client = node.create_client("any", timeout=PATIENCE)
                with pytest.raises(tb.Unsupported, match="object cannot travel"):
                    await client.call(object())
                with pytest.raises(tb.ServiceError, match="object cannot travel"):
                    await client.call(1)

    run(main())


def test_a_service_that_is_not_there_or_does_not_answer_is_a_timeout(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            client = node.create_client("waits", timeout=0.02)
            with pytest.raises(tb.Timeout, match="no service 'waits'"):
                await client.call(1)
            with pytest.raises(TimeoutError):
                client.call_sync(1)
            assert not await client.wait_for_service(timeout=0.01)
            node.create_service("waits", callback=lambda _: asyncio.sleep(PATIENCE))
            assert await client.wait_for_service(timeout=PATIENCE)
            async with running(node):
                with pytest.raises(tb.Timeout, match="has not answered in time"):
                    await client.call(1)

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
                    await client.call(0, timeout=0.02)
                calling = await started(client.call(1, timeout=PATIENCE))
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
                calls = [clients[i % 3].call(i) for i in range(30)]
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


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_the_death_of_the_service_ends_a_call_and_its_successor_serves_the_next(
    elsewhere: Elsewhere, kind: str
) -> None:
    outcome: list[BaseException] = []

    def call(request: str) -> Any:
        return asyncio.run(client.call(request)) if kind == "async" else client.call_sync(request)

    def wait() -> None:
        try:
            call("wait")
        except tb.Error as error:
            outcome.append(error)

    with tb.Client("fragile") as client:
        for _ in range(2):
            other = elsewhere.start(serve_until_killed)
            assert other.hear() == "ready"
            assert call("hello") == "hello"
            thread = threading.Thread(target=wait)
            thread.start()
            assert other.hear() == "asked"
            other.kill()
            thread.join(PATIENCE)
            assert isinstance(outcome.pop(), tb.Closed)


def test_the_end_of_the_node_ends_a_call(run: Run) -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def wait(request: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        with tb.Client("waits") as client:
            async with tb.Node("node") as node:
                node.create_service("waits", callback=wait)
                ending = await started(node.run())
                calling = await started(client.call(1))
                await asyncio.wait_for(asked.wait(), PATIENCE)
                node.stop()
                with pytest.raises(tb.Closed, match="service 'waits' has gone"):
                    await calling
                await ending

    run(main())


def test_a_client_that_dies_costs_the_others_nothing(elsewhere: Elsewhere) -> None:
    def ask_and_hang() -> None:
        with tb.Client("echo") as client:
            threading.Thread(target=hear).start()
            client.call_sync("wait")

    async def main() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def echo(request: object) -> object:
            if request == "wait":
                asked.set()
                await go_on.wait()
            return request

        async with tb.Node("node") as node:
            node.create_service("echo", callback=echo)
            async with running(node):
                other = elsewhere.start(ask_and_hang)
                await asyncio.wait_for(asked.wait(), PATIENCE)
                other.kill()
                go_on.set()
                assert await node.create_client("echo").call(7, PATIENCE) == 7

    asyncio.run(main())


def test_a_stopped_service_is_a_timeout_and_answers_when_it_goes_on(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(serve_until_killed)
    assert other.hear() == "ready"
    with tb.Client("fragile", timeout=PATIENCE) as client:
        assert client.call_sync(1) == 1
        other.stop()
        for call in (client.call_sync, lambda *a: asyncio.run(client.call(*a))):
            with pytest.raises(tb.Timeout, match="has not answered in time"):
                call(2, 0.05)
        other.signal(signal.SIGCONT)
        assert client.call_sync(3) == 3
    other.kill()


def test_another_server_of_the_name_takes_over(elsewhere: Elsewhere) -> None:
    servers = [elsewhere.start(serve_until_killed) for _ in range(2)]
    assert [server.hear() for server in servers] == ["ready", "ready"]
    with tb.Client("fragile", timeout=PATIENCE) as client:
        assert client.call_sync(1) == 1
        servers[0].kill()

        def served() -> bool:
            try:
                return bool(client.call_sync(2) == 2)
            except tb.Closed:  # it died between two looks
                return False

        eventually(served)
        servers[1].kill()


def test_what_is_no_request_is_told_and_left(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with tb.Node("node", on_error="raise") as node:
            node.create_service("echo", callback=lambda x: x)
            async with running(node):
                queue = tb.Queue.open("service:echo", timeout=PATIENCE)
                queue.put(np.zeros(3))
                queue.put({"a": 1})
                assert await node.create_client("echo").call(1, PATIENCE) == 1
                await becomes(lambda: len(caplog.records) == 2)

    asyncio.run(main())
    assert all(record.levelname == "WARNING" for record in caplog.records)


def test_a_made_up_address_for_the_answer_is_told_and_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with tb.Node("node", on_error="raise") as node:
            node.create_service("echo", callback=lambda x: x)
            client = node.create_client("echo", timeout=PATIENCE)
            async with running(node):
                requests = tb.Queue.open("service:echo", timeout=PATIENCE)
                for address in ("jobs", replies.address[:-1] + other_digit):
                    item = _calls.request_item(address, _calls.Types(None, None), 1)
                    requests._here.put(*item, None)
                await asyncio.wait_for(until_told(client), PATIENCE)

    async def until_told(client: tb.Client) -> None:
        while len(caplog.records) < 2:  # the second, when the next answer is given
            assert await client.call(2) == 2

    with tb.Queue() as replies:
        other_digit = "1" if replies.address[-1] == "0" else "0"
        asyncio.run(main())
        assert replies.empty()
    assert "this is no address of a queue" in caplog.records[0].message
    assert "this address of a queue was made up" in caplog.records[1].message


def test_a_closed_client_calls_no_more() -> None:
    client = tb.Client("echo")
    client.close()
    client.close()
    with pytest.raises(tb.Closed, match="client of service 'echo' is closed"):
        client.call_sync(1)
    assert repr(client) == "<tensorbus.Client 'echo' closed>"


def test_a_service_needs_a_callback_of_its_mode() -> None:
    with tb.Node("node") as node:
        with pytest.raises(tb.InvalidArgument, match="callback=None"):
            node.create_service("echo")
        with pytest.raises(TypeError, match="coroutine function"):
            node.create_service("echo", callback=asyncio.sleep, mode="sync")
        with pytest.raises(tb.InvalidArgument, match="concurrency=0"):
            node.create_service("echo", callback=print, mode="sync", concurrency=0)
