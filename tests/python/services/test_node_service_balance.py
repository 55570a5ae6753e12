"""Several servers of one service: how they share its calls."""

from __future__ import annotations

import asyncio
import collections
import signal
import threading
import time
from types import SimpleNamespace

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually
from support.loops import started
from support.node_runs import becomes, running
from support.node_services import serve_names
from tensorbus._services import server


def two_servers(elsewhere: Elsewhere) -> dict[str, Elsewhere]:
    servers = {mark: elsewhere.start(serve_names, mark) for mark in ("one", "other")}
    assert [each.hear() for each in servers.values()] == ["ready", "ready"]
    return servers


def knows_both(client: tb.Client) -> tb.Client:
    seen: set[str] = set()
    eventually(lambda: seen.add(client.call_sync(0)) or len(seen) == 2)
    return client


def test_servers_of_one_name_share_the_calls_of_all_clients(elsewhere: Elsewhere) -> None:
    servers = two_servers(elsewhere)
    served: collections.Counter[str] = collections.Counter()

    def ask() -> None:
        with tb.Client("named", timeout=PATIENCE) as client:
            served.update(knows_both(client).call_sync(number) for number in range(40))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert served.total() == 160
    assert min(served[mark] for mark in servers) > 20
    for each in servers.values():
        each.kill()


def test_a_call_goes_to_the_server_with_the_fewest_unanswered_ones() -> None:
    async def main() -> None:
        held = asyncio.Event()

        def answer_as(mark: str) -> object:
            async def answer(request: object) -> str:
                if request == "hold":
                    await held.wait()
                return mark

            return answer

        async with tb.Node("one") as one, tb.Node("other") as other:
            for node in (one, other):
                node.create_service("held", callback=answer_as(node.name), concurrency=8)
            async with running(one, other):
                client = one.create_client("held", timeout=PATIENCE)
                seen = set()
                while len(seen) < 2:
                    seen.add(await client.call_async(0))
                holding = await started(client.call_async("hold"))
                answers = {await client.call_async(number) for number in range(20)}
                held.set()
                assert len(answers) == 1
                assert {await holding} == {"one", "other"} - answers

    asyncio.run(main())


def test_a_slow_server_gets_fewer_calls_of_a_client_with_one_at_a_time() -> None:
    def slow(request: object) -> str:
        time.sleep(0.2)  # what its work takes: long, also where others keep the processors busy
        return "slow"

    with tb.Node("slow") as late, tb.Node("fast") as early:
        late.create_service("uneven", callback=slow, mode="sync")
        early.create_service("uneven", callback=lambda request: "fast", mode="sync")
        late.spin(0)
        early.spin(0)
        with tb.Client("uneven", timeout=PATIENCE) as client:
            knows_both(client)
            served = collections.Counter(client.call_sync(number) for number in range(60))
    assert served["fast"] > 2 * served["slow"]


def test_a_server_that_comes_later_gets_its_share(elsewhere: Elsewhere) -> None:
    first = elsewhere.start(serve_names, "one")
    assert first.hear() == "ready"
    with tb.Client("named", timeout=PATIENCE) as client:
        assert {client.call_sync(number) for number in range(10)} == {"one"}
        second = elsewhere.start(serve_names, "other")
        assert second.hear() == "ready"
        eventually(lambda: client.call_sync(0) == "other")

        def both_serve() -> bool:
            served = collections.Counter(client.call_sync(number) for number in range(40))
            return min(served["one"], served["other"]) >= 5

        eventually(both_serve)  # as soon as the machine lets both run
    first.kill()
    second.kill()


def test_calls_do_not_list_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def addresses_of(*given: object) -> list[str]:
        nonlocal looks
        looks += 1
        return core.addresses_of(*given)  # type: ignore[arg-type]

    core = server.CoreQueue
    monkeypatch.setattr(server, "CoreQueue", SimpleNamespace(addresses_of=addresses_of))
    with tb.Node("server") as node, tb.Client("listed", timeout=PATIENCE) as client:
        node.create_service("listed", callback=lambda request: request, mode="sync")
        node.spin(0)
        for number in range(300):
            assert client.call_sync(number) == number
        assert 1 <= looks < 10
        before = looks
        with tb.Publisher("a change of the domain"):
            eventually(lambda: client.call_sync(0) == 0 and looks > before)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_the_death_of_one_server_ends_its_calls_alone(elsewhere: Elsewhere, kind: str) -> None:
    servers = two_servers(elsewhere)
    outcomes: list[object] = []

    def wait() -> None:
        ask = client.call_sync if kind == "sync" else lambda x: asyncio.run(client.call_async(x))
        try:
            outcomes.append(ask("wait"))
        except tb.Error as error:
            outcomes.append(type(error))

    with tb.Client("named", timeout=PATIENCE) as client:
        knows_both(client)
        threads = [threading.Thread(target=wait) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert [each.hear() for each in servers.values()] == ["asked", "asked"]
        servers["one"].kill()
        eventually(lambda: outcomes)
        assert {client.call_sync(number) for number in range(10)} == {"other"}
        assert outcomes == [tb.Closed]
        servers["other"].kill()
        for thread in threads:
            thread.join()
    assert outcomes == [tb.Closed, tb.Closed]


def test_a_stopped_server_costs_a_client_one_call(elsewhere: Elsewhere) -> None:
    servers = two_servers(elsewhere)
    with tb.Client("named", timeout=PATIENCE) as client:
        knows_both(client)
        servers["one"].stop()
        answers = []
        for number in range(20):
            try:
                answers.append(client.call_sync(number, timeout=2))
            except tb.Timeout:
                answers.append("none")
        assert answers.count("none") <= 1
        assert answers.count("other") >= 19
    with tb.Client("named", timeout=PATIENCE) as late:  # one that has never met it
        assert {late.call_sync(number) for number in range(5)} == {"other"}
    servers["one"].signal(signal.SIGCONT)
    for each in servers.values():
        each.kill()


def test_a_closed_server_leaves_the_calls_to_the_other_one() -> None:
    async def main() -> None:
        async with tb.Node("stays") as stays, tb.Node("goes") as goes:
            for node in (stays, goes):
                node.create_service("closing", callback=lambda _, name=node.name: name)
            async with running(stays):
                going = asyncio.ensure_future(goes.run())
                client = stays.create_client("closing", timeout=PATIENCE)
                seen: set[str] = set()
                lost = 0  # calls that it had accepted and not answered

                async def ask() -> None:
                    nonlocal lost
                    while "goes" not in seen or not going.done():
                        try:
                            seen.add(await client.call_async(0))
                        except tb.Closed:
                            lost += 1

                asking = asyncio.ensure_future(ask())
                await becomes(lambda: "goes" in seen)
                await goes.close()
                await going
                await asking
                assert lost <= 1
                assert {await client.call_async(0) for _ in range(5)} == {"stays"}

    asyncio.run(main())


def test_the_old_names_of_awaited_calls_warn_and_work() -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            node.create_service("old", callback=lambda request: request)
            async with running(node):
                client = node.create_client("old", timeout=PATIENCE)
                with pytest.warns(DeprecationWarning, match="await wait_for_service_async") as told:
                    assert await client.wait_for_service(PATIENCE)
                with pytest.warns(DeprecationWarning, match="await call_async") as also_told:
                    assert await client.call(7) == 7
                assert {each.filename for each in (*told, *also_told)} == {__file__}

    asyncio.run(main())
