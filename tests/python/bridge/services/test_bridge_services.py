"""Services between machines: two domains of this host, each with a bridge of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridges import STATUS_TOPIC, Machine, Relay, two_machines
from support.harness import PATIENCE, Elsewhere, tell
from tensorbus import _core

Pair = tuple[Machine, Machine]


@dataclass
class Image(tb.Message):
    pixels: np.ndarray
    factor: int


@dataclass
class Sum(tb.Message):
    total: int
    pixels: np.ndarray


@dataclass
class Other(tb.Message):
    text: str


@asynccontextmanager
async def serving(machine: Machine, **services: Any) -> AsyncIterator[tb.Node]:
    """Services of this process, on that machine: callback, or types and callback, by name."""
    async with tb.Node("server", domain=machine.domain) as node:
        for name, told in services.items():
            *types, callback = told if isinstance(told, tuple) else (told,)
            node.create_service(name, *types, callback=callback, concurrency=4)
        running = asyncio.ensure_future(node.run())
        try:
            yield node
        finally:
            running.cancel()
            await asyncio.wait([running])


def client(machine: Machine, name: str, *types: Any, **options: Any) -> tb.Client[Any, Any]:
    return tb.Client(name, *types, domain=machine.domain, **{"timeout": PATIENCE, **options})


def run(test: Awaitable[None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE))  # type: ignore[arg-type]


async def echo(request: Any) -> Any:
    return request


def servers(machine: Machine, name: str) -> int:
    """How many processes offer the service there."""
    home = tb.participant(machine.domain)
    return sum(one.name == f"service:{name}" for one in _core.list_queues(home))


def test_requests_and_replies_cross_with_their_tensors(pair: Pair) -> None:
    here, there = pair

    async def test() -> None:
        async with serving(here, echo=echo):
            with client(there, "echo") as asking:
                for data in (
                    {"x": np.arange(24, dtype=np.int16).reshape(4, 6).T, "id": (1, None, b"x")},
                    np.ones(1_000_000),
                    "text",
                    None,
                    [],
                ):
                    got = await asking.call_async(data)
                    if isinstance(data, dict):
                        assert np.array_equal(got["x"], data["x"])
                        assert got["x"].strides == data["x"].strides
                        assert got["id"] == data["id"]
                    elif isinstance(data, np.ndarray):
                        assert np.array_equal(got, data)
                    else:
                        assert got == data

    run(test())


def test_a_client_that_blocks_its_thread(pair: Pair) -> None:
    here, there = pair

    async def test() -> None:
        async with serving(here, sums=lambda request: int(request.sum())):
            with client(there, "sums") as asking:
                assert await asyncio.to_thread(asking.call_sync, np.arange(10)) == 45

    run(test())


def test_types_are_compared_and_made_as_on_one_machine(pair: Pair) -> None:
    here, there = pair

    async def total(image: Image) -> Sum:
        return Sum(int(image.pixels.sum()) * image.factor, image.pixels * 2)

    async def test() -> None:
        async with serving(here, total=(Image, Sum, total)):
            with client(there, "total", Image, Sum) as asking:
                reply = await asking.call_async(Image(np.arange(4), 10))
                assert (reply.total, reply.pixels.tolist()) == (60, [0, 2, 4, 6])
            with (
                client(there, "total", Other, Sum) as asking,
                pytest.raises(tb.TypeMismatch, match="Image"),
            ):
                await asking.call_async(Other("text"))

    run(test())


def test_an_error_of_the_callback_arrives_with_its_traceback(pair: Pair) -> None:
    here, there = pair

    async def fail(request: Any) -> Any:
        raise KeyError("what was asked for")

    async def test() -> None:
        async with serving(here, fail=fail):
            with (
                client(there, "fail") as asking,
                pytest.raises(tb.ServiceError, match="KeyError: 'what was") as raised,
            ):
                await asking.call_async(1)
            assert "in fail" in str(raised.value.__cause__)

    run(test())


def test_what_cannot_cross_is_an_error_of_its_call_only(pair: Pair) -> None:
    here, there = pair

    async def large(request: Any) -> Any:
        return "x" * (2 << 20) if request == "large" else request[:3]

    async def test() -> None:
        async with serving(here, large=large):
            with client(there, "large") as asking:
                for request in ("large", "x" * (2 << 20)):
                    with pytest.raises(tb.ServiceError, match="at most 1 MiB"):
                        await asking.call_async(request)
                assert await asking.call_async("small") == "sma"

    run(test())


def test_a_service_with_servers_on_both_machines_is_one_service(pair: Pair) -> None:
    here, there = pair

    async def both(name: str) -> str:
        await asyncio.sleep(0.02)
        return name

    async def test() -> None:
        async with (
            serving(here, who=lambda _: "here"),
            serving(there, who=lambda _: "there"),
        ):
            for machine in pair:
                while servers(machine, "who") < 2:
                    await asyncio.sleep(0.01)
                with client(machine, "who") as asking:
                    found = set()
                    while found != {"here", "there"}:
                        found.add(await asking.call_async(None))
        while servers(here, "who") or servers(there, "who"):
            await asyncio.sleep(0.01)

    run(test())


def serve_a_thing(domain: str) -> None:
    async def main() -> None:
        async def thing(request: Any) -> Any:
            if request == "wait":
                tell("asked")
                await asyncio.Event().wait()
            return request

        async with tb.Node("other", domain=domain) as node:
            node.create_service("thing", callback=thing, concurrency=4)
            tell("ready")
            await node.run()

    asyncio.run(main())


def test_a_client_hears_of_the_death_of_a_server_and_finds_the_next_one(
    pair: Pair, elsewhere: Elsewhere
) -> None:
    here, there = pair

    async def test() -> None:
        first = elsewhere.start(serve_a_thing, here.domain)
        assert first.hear() == "ready"
        with client(there, "thing") as asking:
            assert await asking.call_async(1) == 1
            waiting = asyncio.ensure_future(asking.call_async("wait"))
            assert await asyncio.to_thread(first.hear) == "asked"
            first.kill()
            with pytest.raises(tb.Closed, match="before it answered"):
                await waiting
            second = elsewhere.start(serve_a_thing, here.domain)
            assert await asyncio.to_thread(second.hear) == "ready"
            assert await asking.call_async(2) == 2
            second.kill()

    run(test())


def test_a_stopped_server_holds_up_its_own_calls_only(pair: Pair, elsewhere: Elsewhere) -> None:
    here, there = pair

    async def test() -> None:
        other = elsewhere.start(serve_a_thing, here.domain)
        assert other.hear() == "ready"
        async with serving(here, echo=echo):
            with client(there, "thing") as stopped, client(there, "echo") as asking:
                assert await stopped.call_async(1) == 1
                other.stop()
                waiting = [asyncio.ensure_future(stopped.call_async(i)) for i in range(20)]
                for number in range(20):
                    assert await asking.call_async(number) == number
                with pytest.raises(tb.Timeout):
                    await stopped.call_async("late", timeout=0.05)
                other.signal(signal.SIGCONT)
                assert await asyncio.gather(*waiting) == list(range(20))
        other.kill()

    run(test())


def ask_and_die(domain: str) -> None:
    asking = tb.Client[Any, Any]("slow", domain=domain)
    asking.call_sync({"die": True})


def test_a_client_that_dies_or_gives_up_holds_up_nobody(pair: Pair, elsewhere: Elsewhere) -> None:
    here, there = pair

    async def test() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: Any) -> Any:
            if request != "quick":
                asked.set()
                await go_on.wait()
            return request

        async with serving(here, slow=slow):
            dying = elsewhere.start(ask_and_die, there.domain)
            await asked.wait()
            dying.kill()
            with client(there, "slow") as asking:
                with pytest.raises(tb.Timeout):
                    await asking.call_async("slow", timeout=0.05)
                assert await asking.call_async("quick") == "quick"
                go_on.set()
                assert await asking.call_async("slow") == "slow"

    run(test())


def test_a_service_that_is_closed_gives_its_last_answers(pair: Pair) -> None:
    here, there = pair

    async def test() -> None:
        for round_ in range(3):
            async with serving(here, last=echo):
                with client(there, "last") as asking:
                    assert await asking.call_async(round_) == round_
            with client(there, "last") as asking:
                while await asking.wait_for_service_async(timeout=0.01):
                    with suppress(tb.Closed, tb.Timeout):
                        await asking.call_async(0, timeout=0.05)

    run(test())


def test_a_cut_in_the_middle_of_a_call_costs_nothing(tmp_path: Path) -> None:
    relay = Relay()

    async def test(here: Machine, there: Machine) -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: Any) -> Any:
            asked.set()
            await go_on.wait()
            return request

        async with serving(here, slow=slow):
            with client(there, "slow") as asking:
                waiting = asyncio.ensure_future(asking.call_async(np.arange(100_000)))
                await asked.wait()
                relay.cut()
                go_on.set()
                await asyncio.sleep(0.05)
                second = asyncio.ensure_future(asking.call_async("second"))
                relay.mend()
                assert (await waiting).sum() == sum(range(100_000))
                assert await second == "second"

    try:
        with two_machines(tmp_path, through=relay) as (here, there):
            run(test(here, there))
    finally:
        relay.close()


def answering_all_but_one(asked: asyncio.Event) -> Any:
    """A service that gives the request back, and never answers "wait"."""

    async def answer(request: Any) -> Any:
        if request == "wait":
            asked.set()
            await asyncio.Event().wait()
        return request

    return answer


def test_after_a_longer_cut_who_waits_is_told_and_the_service_comes_back(tmp_path: Path) -> None:
    relay = Relay()

    async def test(here: Machine, there: Machine) -> None:
        asked = asyncio.Event()

        async with serving(here, slow=answering_all_but_one(asked)):
            with client(there, "slow") as asking:
                waiting = asyncio.ensure_future(asking.call_async("wait"))
                await asked.wait()
                relay.cut()
                with pytest.raises(tb.Closed):
                    await waiting
                relay.mend()
                assert await asking.call_async("again") == "again"

    try:
        with two_machines(tmp_path, "--timeout", "0.3", through=relay) as (here, there):
            run(test(here, there))
    finally:
        relay.close()


@pytest.mark.parametrize("which", ["here", "there"])
def test_a_bridge_is_killed_in_the_middle_of_a_call(tmp_path: Path, which: str) -> None:
    async def test(here: Machine, there: Machine) -> None:
        asked = asyncio.Event()

        async with serving(here, slow=answering_all_but_one(asked)):
            with client(there, "slow") as asking:
                waiting = asyncio.ensure_future(asking.call_async("wait"))
                await asked.wait()
                killed = {"here": here, "there": there}[which]
                killed.kill()
                killed.restart()
                with pytest.raises(tb.Closed):
                    await waiting
                assert await asking.call_async("again") == "again"

    with two_machines(tmp_path) as (here, there):
        run(test(here, there))


def test_rules_say_which_services_cross(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text('[export]\ndeny = ["private/*"]\n[import]\ndeny = ["unwanted"]')

    async def test(here: Machine, there: Machine) -> None:
        told = {"private/x": echo, "unwanted": echo, "public": echo}
        async with serving(here, **told):
            with client(there, "public") as asking:
                assert await asking.call_async(1) == 1
            with tb.Subscriber[Any](STATUS_TOPIC, domain=there.domain) as statuses:
                while statuses.receive(PATIENCE).data["peers"][0]["services"] != ["public"]:
                    pass
            assert not servers(there, "private/x")
            assert not servers(there, "unwanted")

    with two_machines(tmp_path, "--config", str(config)) as (here, there):
        run(test(here, there))
