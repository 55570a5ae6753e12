"""The web server: the page's files, and a websocket with its frames."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aiohttp import WSCloseCode, WSMsgType, web

from tensorbus._view.address import HEADERS, Address
from tensorbus._view.channel import Channel
from tensorbus._view.overview import Overview, Source
from tensorbus._view.page import InvalidCommand, Page

_STATIC = Path(__file__).parent / "static"
_KINDS = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_MAX_COMMAND = 4096  # bytes of a command of a page
_HEARTBEAT = 20.0  # seconds between pings; a browser that does not reply is disconnected
_MAX_PAGES = 64

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Shows one domain to the browsers of this machine that send its token.

    Args:
        inspect: inspects the domain.
        domain: the domain of the tiles' topics.
        address: the page's address.
    """

    def __init__(self, inspect: Source, domain: str | None, address: Address) -> None:
        self._domain = domain
        self._address = address
        self._files = {
            path.name: path.read_bytes() for path in _STATIC.iterdir() if path.suffix in _KINDS
        }
        self._workers = ThreadPoolExecutor(2, "tensorbus-view")
        self._overview = Channel(Overview(inspect).run)
        self._feeds: dict[tuple[str, str], Channel] = {}
        self._pages: dict[Page, web.WebSocketResponse] = {}

    @property
    def url(self) -> str:
        """See `Address.url`."""
        return self._address.url

    @property
    def pages(self) -> tuple[Page, ...]:
        """The open pages."""
        return tuple(self._pages)

    @property
    def topics(self) -> set[str]:
        """The topics that a tile shows."""
        return {topic for (topic, _), channel in self._feeds.items() if channel.listeners}

    async def run(self, on_start: Callable[[], object] = lambda: None) -> None:
        """Serves until it is cancelled. Calls `on_start` when pages can be opened."""
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/{token}/live", self._live)
        app.router.add_get("/{token}/{file:.*}", self._file)
        # No access log: it would contain the token.
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.SockSite(runner, self._address.listening).start()
            on_start()
            await asyncio.Event().wait()
        finally:
            closing = [page.close(code=WSCloseCode.GOING_AWAY) for page in self._pages.values()]
            await asyncio.gather(*closing, return_exceptions=True)
            await runner.cleanup()
            self._workers.shutdown()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses requests that the page did not send, before they are handled."""
        token = request.path.lstrip("/").partition("/")[0]
        host, origin = request.headers.get("Host"), request.headers.get("Origin")
        if not self._address.allows(token, host, origin):
            return web.Response(status=403, text="open the address that tensorbus view printed\n")
        return await handler(request)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        # Only files that were read at the start: a path from a request is never opened.
        name = request.match_info["file"] or "index.html"
        if name not in self._files:
            raise web.HTTPNotFound()
        kind = _KINDS[Path(name).suffix]
        return web.Response(
            body=self._files[name], content_type=kind, charset="utf-8", headers=HEADERS
        )

    async def _live(self, request: web.Request) -> web.StreamResponse:
        if len(self._pages) >= _MAX_PAGES:
            raise web.HTTPServiceUnavailable(text="too many pages are open")
        live = web.WebSocketResponse(
            heartbeat=_HEARTBEAT, max_msg_size=_MAX_COMMAND, compress=False, timeout=1.0
        )
        await live.prepare(request)
        page = Page(self._overview, self._feed)
        self._pages[page] = live
        sending = asyncio.create_task(page.send(live))
        try:
            await self._listen(live, page)
        finally:
            del self._pages[page]
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await sending
            await page.close()
        return live

    async def _listen(self, live: web.WebSocketResponse, page: Page) -> None:
        async for message in live:
            try:
                if message.type is not WSMsgType.TEXT:
                    raise InvalidCommand("not a text")
                await page.handle_command(message.data)
            except InvalidCommand as invalid:
                reason = str(invalid).encode()[:100]
                await live.close(code=WSCloseCode.POLICY_VIOLATION, message=reason)

    def _feed(self, topic: str, view: str) -> Channel:
        self._feeds = {key: feed for key, feed in self._feeds.items() if feed.listeners}
        if (topic, view) not in self._feeds:
            from tensorbus._view.feed import Feed  # here: it imports NumPy

            feed = Feed(topic, view, self._domain, self._workers)
            self._feeds[topic, view] = Channel(feed.run)
        return self._feeds[topic, view]
