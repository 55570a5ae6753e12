"""The server: who may ask, what it asks of others, and what a slow or hostile page can do."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, Process, eventually, hear, tell

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from aiohttp import ClientSession, TCPConnector, WSServerHandshakeError
from aiohttp.web import WebSocketResponse
from yarl import URL

from support.inspections import inspection, participant, publisher
from support.screens.view_pages import DOMAIN, page, serving, until
from tensorbus._inspection.report import Inspection
from tensorbus._view import overview
from tensorbus._view import server as server_module
from tensorbus._view import serving as command
from tensorbus._view.address import Address
from tensorbus._view.channel import Frame, Take
from tensorbus._view.server import Server


async def status(server: Server, path: str, **headers: str) -> int:
    """Of a request for a path that is sent as it is written."""
    async with ClientSession() as client:
        url = URL(server.url).origin()
        request = client.get(URL(f"{url}{path}", encoded=True), headers=headers)
        async with request as response:
            return response.status


def place(server: Server) -> str:
    """The path of the page."""
    return URL(server.url).path


def test_the_page_is_served_to_who_knows_the_token() -> None:
    async def main() -> None:
        async with serving() as server, ClientSession() as client:
            async with client.get(server.url) as response:
                text = await response.text()
                assert response.status == 200
                assert response.headers["Content-Security-Policy"].startswith("default-src 'self'")
                assert response.headers["Referrer-Policy"] == "no-referrer"
            assert "http" not in text.replace("http-equiv", "")  # no file from outside
            async with client.get(f"{server.url}main.js") as response:
                assert (response.status, response.content_type) == (200, "text/javascript")

    asyncio.run(main())


def test_without_the_token_nothing_is_served() -> None:
    async def main() -> None:
        async with serving() as server, serving() as other:
            for path in (
                "/",
                "/live",
                "/main.js",
                "//",
                "/favicon.ico",
                f"/x{place(server)[1:]}",
                place(other),
            ):
                assert await status(server, path) == 403
            wrong = place(server)[:-2] + ("A" if place(server)[-2] != "A" else "B") + "/"
            assert await status(server, wrong) == 403
            assert await status(server, "/%ff%00%E2%82%AC/") in (400, 403)
            assert await status(server, place(server)) == 200

    asyncio.run(main())


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "tensorbus.example"},  # DNS rebinding
        {"Host": "127.0.0.1:1"},
        {"Host": ""},
        {"Origin": "http://tensorbus.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
    ],
    ids=str,
)
def test_pages_of_other_sites_get_nothing(headers: dict[str, str]) -> None:
    async def main() -> None:
        async with serving() as server:
            assert await status(server, place(server), **headers) == 403
            async with ClientSession() as client:
                with pytest.raises(WSServerHandshakeError, match="403"):
                    await client.ws_connect(f"{server.url}live", headers=headers)

    asyncio.run(main())


@pytest.mark.parametrize(
    "name",
    [
        "../server.py",
        "%2e%2e/server.py",
        "..%2fserver.py",
        "/etc/passwd",
        "....//server.py",
        "main.js/../../server.py",
        "main.js%00.html",
        "__init__.py",
        ".",
    ],
)
def test_no_path_leads_out_of_the_files_of_the_page(name: str) -> None:
    async def main() -> None:
        async with serving() as server:
            assert await status(server, f"{place(server)}{name}") in (400, 403, 404)

    asyncio.run(main())


def test_it_listens_on_this_machine_only() -> None:
    async def main() -> None:
        async with serving() as server:
            assert URL(server.url).host == "127.0.0.1"
            with pytest.raises(OSError, match="in use"):
                Address(URL(server.url).port or 0)

    asyncio.run(main())


def counted(seen: list[int]) -> Callable[[], Inspection]:
    def source() -> Inspection:
        seen.append(len(seen))
        report = publisher("topic", sent=10 * len(seen))
        return inspection(participant(1, publishers=(report,)), at=len(seen))

    return source


def test_the_domain_is_inspected_only_while_a_page_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "PERIOD", 0.02)
    seen: list[int] = []
    states: list[str] = []

    class Watched(overview.Overview):
        async def run(self, give: Take) -> None:
            states.append("began")
            try:
                await super().run(give)
            finally:
                states.append("ended")

    monkeypatch.setattr(server_module, "Overview", Watched)

    async def main() -> None:
        async with serving(counted(seen)) as server:
            assert await status(server, place(server)) == 200  # the page without its websocket
            assert states == []
            async with page(server) as one, page(server) as other:
                while len(seen) < 5:
                    frame = await one.next(DOMAIN)
                await other.next(DOMAIN)
                assert frame.header["topics"][0]["hz"] == 10
            await until(lambda: states == ["began", "ended"])

    asyncio.run(main())


def test_an_inspection_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "PERIOD", 0.02)
    failures = iter([tb.AccessDenied("not yours"), OSError(5, "no directory"), KeyError("ours")])

    def source() -> Inspection:
        for failure in failures:
            raise failure
        return inspection()

    async def main() -> None:
        async with serving(source) as server, page(server) as one:
            assert (await one.next(DOMAIN)).header["processes"] == []

    asyncio.run(main())


def test_nothing_subscribes_until_a_tile_is_opened_and_after_it_was_closed() -> None:
    async def main(sender: tb.Publisher) -> None:
        async with serving() as server, page(server) as viewer:
            await viewer.next(DOMAIN)
            assert sender.stats.subscribers == 0
            await viewer.open(1, "topic")
            frame = await viewer.next(1)
            assert frame.header["series"] == {"data": 7.0}
            assert sender.stats.subscribers == 1
            await viewer.tell(type="close", tile=1)
            await until(lambda: sender.stats.subscribers == 0)
            assert server.topics == set()

    with tb.Publisher("topic", history=1) as sender:
        sender.publish(7)
        asyncio.run(main(sender))


def test_a_page_that_is_gone_unsubscribes() -> None:
    async def main(sender: tb.Publisher) -> None:
        async with serving() as server:
            async with page(server) as viewer:
                await viewer.open(1, "topic")
                await viewer.next(1)
            await until(lambda: sender.stats.subscribers == 0)
            assert server.pages == ()

    with tb.Publisher("topic", history=1) as sender:
        sender.publish(7)
        asyncio.run(main(sender))


def test_a_tile_changes_its_view() -> None:
    async def main() -> None:
        async with serving() as server, page(server) as viewer:
            await viewer.open(1, "topic")
            assert (await viewer.next(1)).header["view"] == "left"
            await viewer.open(1, "topic", "right")
            frame = await viewer.next(1)
            while frame.header["view"] != "right":
                frame = await viewer.next(1)
            assert frame.payload[:4] == bytes([9, 9, 9, 255])

    with tb.Publisher("topic", history=1) as sender:
        left, right = np.zeros((4, 4), np.uint8), np.full((4, 4), 9, np.uint8)
        sender.publish({"left": left, "right": right})
        asyncio.run(main())


def test_a_name_that_is_no_topic_is_shown_in_its_tile() -> None:
    async def main() -> None:
        async with serving() as server, page(server) as viewer:
            await viewer.open(1, "")
            assert (await viewer.next(1)).header["kind"] == "text"

    asyncio.run(main())


def publish_until_killed(topic: str, value: int) -> None:
    with tb.Publisher(topic, history=1) as sender:
        sender.publish(value)
        tell("published")
        hear()


def test_a_publisher_that_is_killed_leaves_its_tile_open_for_the_next(
    elsewhere: Elsewhere,
) -> None:
    first = elsewhere.start(publish_until_killed, "topic", 1)
    assert first.hear() == "published"

    async def main() -> None:
        async with serving() as server, page(server) as viewer:
            await viewer.open(1, "topic")
            assert (await viewer.next(1)).header["series"] == {"data": 1}
            first.kill()
            second = elsewhere.start(publish_until_killed, "topic", 2)
            assert (await viewer.next(1)).header["series"] == {"data": 2}
            second.tell()

    asyncio.run(main())


def publish_a_type_of_its_own() -> None:
    only_here = make_dataclass("OnlyHere", [("grid", np.ndarray)], bases=(tb.Message,))
    with tb.Publisher("topic", history=1) as sender:
        sender.publish(only_here(np.ones((5, 5), np.float32)))
        tell("published")
        hear()


def test_a_message_whose_type_is_not_known_is_shown_by_its_tensors(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(publish_a_type_of_its_own)
    assert other.hear() == "published"

    async def main() -> None:
        async with serving() as server, page(server) as viewer:
            await viewer.open(1, "topic")
            header = (await viewer.next(1)).header
            assert (header["kind"], header["view"]) == ("heat", "tensor 0")
            await viewer.open(1, "topic", "(text)")
            while header["kind"] != "text":
                header = (await viewer.next(1)).header
            assert "OnlyHere" in header["lines"][0]

    asyncio.run(main())
    other.tell()


def run_view(open_browser: bool) -> None:
    from tensorbus._view import run

    raise SystemExit(run(None, open_browser=open_browser))


def address_of(view: Process) -> str:
    """What the command prints."""
    line: bytes = view._running.stdout.readline()  # type: ignore[union-attr]
    return line.decode().split(": ")[1].strip()


def test_the_browser_is_led_to_the_page_by_a_file_that_only_the_user_can_read(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(
        f'#!/bin/sh\necho "$@" >{seen}.new\nf="${{1#file://}}"\n'
        f'stat -c %a "${{f%/*}}" >>{seen}.new\ncat "$f" >>{seen}.new\nmv {seen}.new {seen}\n'
        "sleep 60\n"  # as one that returns when it is closed: the command does not wait for it
    )
    browser.chmod(0o700)
    view = elsewhere.start(run_view, True, env={"BROWSER": str(browser), "DISPLAY": ":9"})
    address = address_of(view)
    eventually(seen.exists)
    argument, mode, page_text = seen.read_text().splitlines()
    assert address not in argument  # which other users can read
    assert (mode, address in page_text) == ("700", True)
    view.signal(signal.SIGTERM)
    assert view.end()[0] == 0
    assert not Path(argument.removeprefix("file://")).exists()


@pytest.mark.parametrize("name", ["DISPLAY", "WAYLAND_DISPLAY"])
def test_only_a_browser_with_a_desktop_is_opened(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not command.has_desktop()  # over ssh: w3m and its like would take the terminal
    monkeypatch.setenv(name, "0")
    assert command.has_desktop()


def test_a_sample_that_cannot_be_shown_does_not_end_its_tile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tensorbus._view import feed

    failures = iter([KeyError("a fault of the view")])
    frame_of = feed.frame_of

    def failing(message: object, view: str) -> Frame:
        for failure in failures:
            raise failure
        return frame_of(message, view)

    monkeypatch.setattr(feed, "frame_of", failing)

    async def main(sender: tb.Publisher) -> None:
        async with serving() as server, page(server) as viewer:
            await viewer.open(1, "topic")
            assert (await viewer.next(1)).header["lines"] == ["'a fault of the view'"]
            sender.publish(8)
            assert (await viewer.next(1)).header["series"] == {"data": 8}

    with tb.Publisher("topic", history=1) as sender:
        sender.publish(7)
        asyncio.run(main(sender))


def test_all_pages_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    closing: list[WebSocketResponse] = []
    close = WebSocketResponse.close

    async def close_when_both_are_asked(self: WebSocketResponse, **options: Any) -> bool:
        closing.append(self)
        await until(lambda: len(closing) >= 2)
        return await close(self, **options)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with serving() as server:
                for _ in range(2):
                    viewer = await stack.enter_async_context(page(server))
                    await viewer.next(DOMAIN)
                monkeypatch.setattr(WebSocketResponse, "close", close_when_both_are_asked)
            assert len(closing) >= 2

    asyncio.run(main())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_prints_its_address_and_ends_on_a_signal(
    elsewhere: Elsewhere, number: signal.Signals
) -> None:
    view = elsewhere.start(run_view, False)
    url = address_of(view)

    async def main() -> None:
        async with (
            ClientSession(connector=TCPConnector(limit=1)) as client,
            client.ws_connect(f"{url}live") as socket,
        ):
            assert (await asyncio.wait_for(socket.receive(), PATIENCE)).data
            view.signal(number)
            assert (await asyncio.wait_for(socket.receive(), PATIENCE)).data in (1001, b"")

    with tb.Publisher("topic"):
        asyncio.run(main())
    assert view.end()[0] == 0
