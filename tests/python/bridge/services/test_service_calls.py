"""Services and shares of another machine over lanes that are cut, and with a peer that is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.cut_lanes import Side, Wire
from support.harness import PATIENCE
from tensorbus import _core
from tensorbus._base.errors import Closed, ProtocolError
from tensorbus._base.participant import forget, participant
from tensorbus._queues.pending import result_of
from tensorbus._services.answers import Answers
from tensorbus._services.calls import Types, read_request, reply_item, request_item
from tensorbus._sharing.elsewhere import code_of, error_of
from tensorbus.bridge._rules import Direction, Rules
from tensorbus.bridge._services.calls import MAX_CALLS, reply_of, with_reply
from tensorbus.bridge._services.mirror import ServiceMirrors
from tensorbus.bridge._services.server import ServiceServer
from tensorbus.bridge._shares.remote import RemoteShare
from tensorbus.bridge._shares.server import ShareServer
from tensorbus.bridge._streams.channel import Channel
from tensorbus.bridge._wire.frames import QueueEntry

ANY = Types(None, None)


@pytest.fixture(scope="module")
def domains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("domains")
    yield str(folder / "here"), str(folder / "there")
    for name in ("here", "there"):
        forget(str(folder / name))


def run(test: Awaitable[None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE))  # type: ignore[arg-type]


def test_a_request_gets_another_address_and_is_otherwise_the_same_to_the_byte() -> None:
    _, fields = request_item("address", ANY, {"x": np.arange(3), "y": (1, {2: None}), "z": -0.0})
    assert reply_of(fields) == "address"
    changed = with_reply(fields, "another address")
    assert reply_of(changed) == "another address"
    assert with_reply(changed, "address") == fields


@pytest.mark.parametrize(
    "fields",
    [b"", b"\xc1", b"\xc0", b"\x80", b"\x81\xa5reply", b"\x81\x01\x02", b"\x91" * 3000],
)
def test_a_request_that_is_none(fields: bytes) -> None:
    with pytest.raises(ProtocolError):
        reply_of(fields)
    with pytest.raises(ProtocolError):
        with_reply(fields, "address")


def test_an_error_is_of_the_same_class_at_the_other_machine() -> None:
    for kind in (tb.Closed, tb.InvalidArgument, tb.OutOfMemory, tb.Unsupported, tb.Timeout):
        assert type(error_of(code_of(kind("text")), "text")) is kind
    for number in (-1, 99):
        assert type(error_of(number, "text")) is ProtocolError


class KnownQueues:
    """The queues of a domain, also those of this process."""

    def __init__(self, domain: str) -> None:
        self._addresses: dict[str, str] = {}
        self.entries: dict[str, QueueEntry] = {}
        for info in _core.list_queues(participant(domain)):
            self._addresses[info.queue] = info.address
            self.entries[info.queue] = QueueEntry(info.queue, info.name, 0, 0, False)

    def address_of(self, key: str) -> str:
        return self._addresses[key]


def bridges(domains: tuple[str, str], rules: Rules | None = None, seed: int = 0) -> Wire:
    """The bridges of two domains: clients are in the first one, services in the second."""
    home = participant(domains[1])
    queues: Any = KnownQueues(domains[1])
    services = ServiceServer(home, queues, rules or Rules())
    served = {"service": services.serve, "share": ShareServer(home).serve}
    return Wire(Side(home=participant(domains[0])), Side(served, home), seed)


@asynccontextmanager
async def serving(domain: str, name: str, callback: Any) -> AsyncIterator[None]:
    async with tb.Node("server", domain=domain) as node:
        node.create_service(name, callback=callback, concurrency=4)
        running = asyncio.ensure_future(node.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])


def mirror(wire: Wire, domain: str) -> ServiceMirrors:
    """Tells the first bridge of the services of a domain."""
    mirrors = ServiceMirrors(wire.here.link, wire.here.channels)
    mirrors.on_queues(list(KnownQueues(domain).entries.values()), [])
    return mirrors


async def end(wire: Wire) -> None:
    for side in (wire.here, wire.there):
        assert not side.errors
        side.channels.close("the test is over")
    while any(side.channels._tasks for side in (wire.here, wire.there)):
        await asyncio.sleep(0)


def test_each_call_is_made_and_answered_once_over_a_cut_at_every_part(
    domains: tuple[str, str],
) -> None:
    made: list[int] = []

    async def double(request: Any) -> Any:
        made.append(request["n"])
        return {"n": 2 * request["n"], "array": request["array"]}

    async def calls(cut_at: set[int], seed: int) -> int:
        made.clear()
        wire = bridges(domains, seed=seed)
        wire.cut_at = cut_at
        mirror(wire, domains[1])
        with tb.Client[Any, Any]("double", domain=domains[0]) as client:
            requests = [
                {"n": number, "array": np.full(size, number, np.uint8)}
                for number, size in enumerate((10, 100_000, 10, 0))
            ]
            answers = await wire.run(asyncio.gather(*map(client.call_async, requests)))
        for request, answer in zip(requests, answers, strict=True):
            assert answer["n"] == 2 * request["n"]
            assert np.array_equal(answer["array"], request["array"])
        assert sorted(made) == [0, 1, 2, 3]
        await end(wire)
        return wire.delivered

    async def test() -> None:
        async with serving(domains[1], "double", double):
            parts = await calls(set(), 0)
            for at in range(parts):
                await calls({at, at + 3}, at)

    run(test())


def test_answers_that_came_before_the_end_of_a_service_arrive(domains: tuple[str, str]) -> None:
    async def test() -> None:
        home = participant(domains[1])
        service = _core.Queue(
            maxsize=0,
            redeliver=False,
            shared=False,
            name="service:ends",
            max_bytes=0,
            participant=home,
        )
        wire = bridges(domains)
        mirror(wire, domains[1])
        answers = Answers(domains[1], print)
        with tb.Client[Any, Any]("ends", domain=domains[0]) as client:
            calls = [asyncio.ensure_future(client.call_async(number)) for number in range(4)]
            requests = [
                read_request(await wire.run(result_of(service.start_get())), None) for _ in calls
            ]
            for request in requests[2:]:
                answers.give(request.reply, reply_item(ANY, request.data))
            answers.finish_sync()  # the bridge hears of all this at once
            service.close()
            found = await wire.run(asyncio.gather(*calls, return_exceptions=True))
        answered = {request.data for request in requests[2:]}
        for number, result in enumerate(found):
            if number in answered:
                assert result == number
            else:
                assert isinstance(result, tb.Closed)
        await end(wire)

    run(test())


def test_the_end_of_the_session_is_that_of_its_services(domains: tuple[str, str]) -> None:
    async def test() -> None:
        asked = asyncio.Event()

        async def wait(request: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

        async with serving(domains[1], "wait", wait):
            wire = bridges(domains)
            mirror(wire, domains[1])
            with tb.Client[Any, Any]("wait", domain=domains[0]) as client:
                call = asyncio.ensure_future(client.call_async(1))
                await wire.run(asked.wait())
                wire.cut()
                wire.here.channels.close("the session has ended")
                with pytest.raises(tb.Closed):
                    await call
                assert not await client.wait_for_service_async(timeout=0)
            await end(wire)

    run(test())


def test_a_service_that_is_removed_goes_and_its_calls_end_first(domains: tuple[str, str]) -> None:
    async def test() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def wait(request: Any) -> Any:
            asked.set()
            await go_on.wait()
            return request

        async with serving(domains[1], "wait", wait):
            wire = bridges(domains)
            mirrors = mirror(wire, domains[1])
            with tb.Client[Any, Any]("wait", domain=domains[0]) as client:
                call = asyncio.ensure_future(client.call_async(1))
                await wire.run(asked.wait())
                mirrors.on_queues([], list(KnownQueues(domains[1]).entries))
                go_on.set()
                assert await wire.run(call) == 1
                await wire.settle()
                assert not await client.wait_for_service_async(timeout=0)
            assert not wire.here.channels._channels
            await end(wire)

    run(test())


@pytest.mark.parametrize("what", ["unknown", "a queue", "denied"])
def test_a_peer_asks_for_what_it_may_not_have(domains: tuple[str, str], what: str) -> None:
    async def test() -> None:
        with tb.Queue[Any](name="jobs", domain=domains[1]):
            async with serving(domains[1], "private", lambda request: request):
                rules = Rules(Direction(deny=("private",)))
                keys = {entry.name: key for key, entry in KnownQueues(domains[1]).entries.items()}
                key = {"a queue": keys["jobs"], "denied": keys["service:private"]}.get(what, what)
                wire = bridges(domains, rules)
                channel = wire.here.channels.open("service", key)
                channel.send("call", 1, fields=request_item("nowhere", ANY, 1)[1])
                with pytest.raises(Closed):
                    await wire.run(channel.receive())
                await end(wire)

    run(test())


def test_a_call_that_makes_no_sense_is_an_error_of_the_peers(domains: tuple[str, str]) -> None:
    request = request_item("nowhere", ANY, 1)[1]

    async def test() -> None:
        async with serving(domains[1], "echo", lambda request: request):
            (key,) = KnownQueues(domains[1]).entries
            for words, fields in (
                (("future", 1), request),
                (("call",), request),
                (("call", -1), request),
                (("call", "one"), request),
                (("call", 1), b"\xc0"),
            ):
                wire = bridges(domains)
                channel = wire.here.channels.open("service", key)
                verb, *arguments = words
                channel.send(verb, *arguments, fields=fields)  # type: ignore[arg-type]
                with pytest.raises(Closed):
                    await wire.run(channel.receive())
                assert wire.there.errors
                wire.there.errors.clear()
                await end(wire)

    run(test())


def test_a_peer_that_sends_more_calls_than_may_be_under_way_is_cut_off(
    domains: tuple[str, str],
) -> None:
    request = request_item("nowhere", ANY, 1)[1]

    async def test() -> None:
        async def wait(_: Any) -> None:
            await asyncio.Event().wait()

        async with serving(domains[1], "slow", wait):
            (key,) = KnownQueues(domains[1]).entries
            wire = bridges(domains)
            channel = wire.here.channels.open("service", key)
            for number in range(MAX_CALLS):
                channel.send("call", number, fields=request)
            await wire.settle()
            assert not channel.over
            channel.send("call", MAX_CALLS, fields=request)
            with pytest.raises(Closed):
                await wire.run(channel.receive())
            assert wire.there.errors
            wire.there.errors.clear()
            await end(wire)

    run(test())


@pytest.mark.parametrize("words", [("future",), ("answer",), ("answer", 2), ("answer", 1, 1)])
def test_an_answer_that_makes_no_sense_ends_the_service(
    domains: tuple[str, str], words: tuple[Any, ...]
) -> None:
    async def test() -> None:
        async def answer(channel: Channel) -> None:
            assert (await channel.receive()).numbers(1) == [1]
            channel.send(*words, fields=reply_item(ANY, 1)[1])
            await channel.receive()

        wire = Wire(Side(home=participant(domains[0])), Side({"service": answer}))
        mirrors = ServiceMirrors(wire.here.link, wire.here.channels)
        mirrors.on_queues([QueueEntry("key", "service:wrong", 0, 0, False)], [])
        with tb.Client[Any, Any]("wrong", domain=domains[0]) as client, pytest.raises(tb.Closed):
            await wire.run(client.call_async(1))
        assert wire.here.errors
        wire.here.errors.clear()
        await end(wire)

    run(test())


def remote(wire: Wire, handle: tb.Handle, fetched: list[None]) -> RemoteShare:
    channels = wire.here.channels
    return RemoteShare(
        handle._core,
        wire.here.link.participant,
        lambda kind, key: [channels.open(kind, key)],
        lambda: fetched.append(None),
    )


def test_a_share_is_fetched_once_over_a_cut_at_every_part(domains: tuple[str, str]) -> None:
    async def attaches(shared: tb.Shared, cut_at: set[int]) -> int:
        wire = bridges(domains)
        wire.cut_at = cut_at
        fetched: list[None] = []
        share = remote(wire, shared.handle, fetched)
        for _ in range(2):
            copy = await wire.run(share.attach("read", None))
            got = tb.attach(copy.bytes(), domain=domains[0])
            assert got["x"].tolist() == list(range(30_000))
        assert len(fetched) == 1
        share.close()
        await wire.settle()
        assert not wire.there.channels._channels
        await end(wire)
        return wire.delivered

    async def test() -> None:
        with tb.share({"x": np.arange(30_000)}, domain=domains[1]) as shared:
            for at in range(await attaches(shared, set())):
                await attaches(shared, {at})

    run(test())


def test_a_share_that_ends_is_closed_and_an_attach_that_is_given_up_is_forgotten(
    domains: tuple[str, str],
) -> None:
    async def test() -> None:
        wire = bridges(domains)
        with tb.share(np.arange(3), domain=domains[1]) as shared:
            share = remote(wire, shared.handle, [])
            giving_up = asyncio.ensure_future(share.attach("read", None))
            await wire.settle()
            giving_up.cancel()
            await asyncio.wait([giving_up])
            assert await wire.run(share.attach("read", None)) is not None
            with pytest.raises(tb.AccessDenied):
                await wire.run(share.attach("shared", None))
            assert await wire.run(share.attach("read", None)) is not None
        with pytest.raises(tb.Closed):
            await wire.run(share.attach("read", None))
        await end(wire)

    run(test())


async def say_here(channel: Channel) -> None:
    channel.send("here")
    message = await channel.receive()
    raise AssertionError(f"a liar has got {message.fields!r}")


async def say_nothing(channel: Channel) -> None:
    await channel.receive()


@pytest.mark.parametrize("order", [["share", "liar"], ["liar", "share"]])
def test_a_handle_is_told_to_nobody_if_two_peers_say_that_they_have_its_process(
    domains: tuple[str, str], order: list[str]
) -> None:
    async def test() -> None:
        with tb.share(np.arange(3), domain=domains[1]) as shared:
            wire, share = asks(domains, shared.handle, order)
            with pytest.raises(tb.AccessDenied, match="both say"):
                await wire.run(share.attach("read", None))
            await wire.settle()
            assert not wire.here.channels._channels
            await end(wire)

    run(test())


def asks(domains: tuple[str, str], handle: tb.Handle, kinds: list[str]) -> tuple[Wire, RemoteShare]:
    """A share that is looked for with channels of these kinds: one peer each."""
    home = participant(domains[1])
    served = {
        "share": ShareServer(home).serve,
        "liar": say_here,
        "silent": say_nothing,
    }
    wire = Wire(Side(home=participant(domains[0])), Side(served, home))
    channels = wire.here.channels

    def open_all(_: str, key: str) -> list[Channel]:
        return [channels.open(kind, key) for kind in kinds]

    return wire, RemoteShare(handle._core, wire.here.link.participant, open_all, lambda: None)


def test_a_peer_that_does_not_answer_holds_up_no_attach(domains: tuple[str, str]) -> None:
    async def test() -> None:
        with tb.share(np.arange(3), domain=domains[1]) as shared:
            wire, share = asks(domains, shared.handle, ["silent", "share"])
            assert await wire.run(share.attach("read", None)) is not None
            share.close()
            await end(wire)

    run(test())


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("../../x", ()),
        ("", ()),
        (None, ("future",)),
        (None, ("attach",)),
        (None, ("attach", 0, -1)),
    ],
)
def test_a_wrong_request_for_a_share_is_an_error_of_the_peers(
    domains: tuple[str, str], key: str | None, words: tuple[Any, ...]
) -> None:
    async def test() -> None:
        wire = bridges(domains)
        owner = participant(domains[1]).id if key is None else key
        channel = wire.here.channels.open("share", owner)
        if words:
            channel.send(*words)
        if key is None:
            assert (await wire.run(channel.receive())).verb == "here"
        with pytest.raises(Closed):
            await wire.run(channel.receive())
        assert wire.there.errors
        wire.there.errors.clear()
        await end(wire)

    run(test())


@pytest.mark.parametrize(
    "words", [("future",), ("same",), ("share", 1), ("refused", 3), ("refused", "a", "b")]
)
def test_a_wrong_answer_of_a_peer_is_an_error(
    domains: tuple[str, str], words: tuple[Any, ...]
) -> None:
    async def test() -> None:
        async def answer(channel: Channel) -> None:
            channel.send("here")
            await channel.receive()
            channel.send(*words)
            await channel.receive()

        wire = Wire(Side(home=participant(domains[0])), Side({"share": answer}))
        with tb.share(np.arange(3), domain=domains[1]) as shared:
            share = remote(wire, shared.handle, [])
            with pytest.raises(ProtocolError):
                await wire.run(share.attach("read", None))
        await end(wire)

    run(test())
