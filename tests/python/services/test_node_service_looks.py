"""How a client in an event loop finds its service, which may come later, or be stopped."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import pytest

import tensorbus as tb
from support.bridge.bridge_queues import in_thread
from support.harness import PATIENCE, Elsewhere, eventually
from support.loops import Run, started, turns
from support.node_runs import becomes, running
from support.node_services import serve_until_killed
from tensorbus._base.participant import participant
from tensorbus._services import server


class Looks:
    """Looks for a service, none of which begins before the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.go_on = threading.Event()
        self._open = tb.Queue.open
        monkeypatch.setattr(tb.Queue, "open", self._look)

    def _look(self, *args: Any, **kwargs: Any) -> tb.Queue:
        self.count += 1
        assert self.go_on.wait(PATIENCE)
        return self._open(*args, **kwargs)


def test_a_look_for_a_service_leaves_the_event_loop_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        looks = Looks(monkeypatch)
        async with tb.Node("node") as node:
            node.create_service("echo", callback=lambda x: x)
            client = node.create_client("echo", timeout=PATIENCE)
            async with running(node):
                calls = [await started(client.call_async(number)) for number in range(5)]
                waiting = await started(client.wait_for_service_async())
                await becomes(lambda: looks.count)
                await turns(100)
                assert looks.count == 1, "one for all that wait"
                looks.go_on.set()
                assert await asyncio.gather(*calls) == list(range(5))
                assert await waiting

    run(main())


def test_a_cancelled_call_leaves_its_look_to_the_others(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        looks = Looks(monkeypatch)
        async with tb.Node("node") as node:
            node.create_service("echo", callback=lambda x: x)
            client = node.create_client("echo", timeout=PATIENCE)
            async with running(node):
                cancelled = await started(client.call_async(1))
                other = await started(client.call_async(2))
                await becomes(lambda: looks.count)
                cancelled.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await cancelled
                looks.go_on.set()
                assert await other == 2
                assert await client.call_async(3) == 3

    run(main())


def test_a_look_may_end_after_its_event_loop(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = Looks(monkeypatch)

    async def main() -> None:
        calling = await started(client.call_async(1))
        await becomes(lambda: looks.count)
        assert not calling.done()

    with tb.Client("echo", timeout=PATIENCE) as client:
        run(main())
        looks.go_on.set()
        with tb.Node("node") as node:
            node.create_service("echo", callback=lambda x: x, mode="sync")
            node.spin(0)
            assert client.call_sync(2) == 2
    assert not caplog.records


@pytest.mark.parametrize("kind", ["call_async", "wait_for_service_async"])
def test_the_loop_goes_on_until_a_service_appears(
    elsewhere: Elsewhere, run: Run, kind: str
) -> None:
    async def main() -> None:
        with tb.Client("fragile", timeout=PATIENCE) as client:
            found = (
                client.call_async(True)
                if kind == "call_async"
                else client.wait_for_service_async(PATIENCE)
            )
            finding = await started(found)
            await turns(1000)
            assert not finding.done()
            other = elsewhere.start(serve_until_killed)
            assert await finding
            other.kill()

    run(main())


def test_a_stopped_service_is_found_when_it_goes_on(elsewhere: Elsewhere, run: Run) -> None:
    async def main() -> None:
        other = elsewhere.start(serve_until_killed)
        assert other.hear() == "ready"
        other.stop()
        with tb.Client("fragile", timeout=PATIENCE) as client:
            with pytest.raises(tb.Timeout, match=r"'fragile' (has not answered )?in time"):
                await client.call_async(1, timeout=0.05)
            calling = await started(client.call_async(2))
            await turns(1000)
            other.signal(signal.SIGCONT)
            assert await calling == 2
        other.kill()

    run(main())


class ManyStopped:
    """Twenty addresses of one service, which is stopped; counts how often one is tried."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
        self.tries = 0
        self._open = tb.Queue.open
        monkeypatch.setattr(tb.Queue, "open", self._try)
        monkeypatch.setattr(server.CoreQueue, "addresses_of", lambda *_: [address] * 20)

    def _try(self, *args: Any, **kwargs: Any) -> tb.Queue:
        self.tries += 1
        return self._open(*args, **kwargs)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_call_in_time_does_not_try_all_servers_that_are_stopped(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    other = elsewhere.start(serve_until_killed)
    assert other.hear() == "ready"
    (address,) = server.CoreQueue.addresses_of("service:fragile", participant())
    other.stop()
    stopped = ManyStopped(monkeypatch, address)
    with tb.Client("fragile", timeout=0.05) as client:
        call = client.call_sync if kind == "sync" else lambda x: asyncio.run(client.call_async(x))
        with pytest.raises(tb.Timeout, match=r"'fragile' (has not answered )?in time"):
            call(1)
        assert stopped.tries <= 2
    other.kill()


def test_each_look_begins_with_servers_that_were_not_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[str] = []

    def add(_finder: server.Finder, address: str, _timeout: float) -> None:
        if address != "host:3:live":
            raise tb.Timeout
        found.append(address)

    addresses = ["host:1:stopped", "host:2:stopped", "host:3:live"]
    monkeypatch.setattr(server.Finder, "_add", add)
    monkeypatch.setattr(server.CoreQueue, "addresses_of", lambda *_: addresses)
    for number in range(20):
        finder = server.Finder("any", None)
        for _ in addresses:
            if len(found) == number:
                finder._open(0)  # has time for one that is silent
        assert len(found) == number + 1


def test_a_call_in_time_does_not_wait_for_the_look_of_another(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        looks = Looks(monkeypatch)
        with tb.Client("missing") as client:
            other = await started(client.wait_for_service_async(PATIENCE))
            await becomes(lambda: looks.count)
            with pytest.raises(tb.Timeout, match="no service 'missing' in time"):
                await client.call_async(1, timeout=0.05)
            assert not other.done()
            other.cancel()
            looks.go_on.set()

    run(main())


def test_a_closed_client_looks_no_more(run: Run) -> None:
    async def main() -> None:
        client = tb.Client("missing")
        calls = [
            await started(client.call_async(1)),
            await started(client.wait_for_service_async()),
        ]
        client.close()
        for call in calls:
            with pytest.raises(tb.Closed, match="client of service 'missing' is closed"):
                await call

    run(main())


def test_a_closed_client_without_an_event_loop_looks_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Looks(monkeypatch)
    client = tb.Client("missing")
    calling = in_thread(lambda: client.call_sync(1))
    eventually(lambda: looks.count)
    client.close()
    looks.go_on.set()
    with pytest.raises(tb.Closed, match="client of service 'missing' is closed"):
        calling.result(PATIENCE)
