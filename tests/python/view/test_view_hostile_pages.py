"""Pages that send invalid commands, do not read, or are many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from yarl import URL

from support.screens.view_pages import DOMAIN, page, serving, until
from tensorbus._view.page import MAX_TILES

GARBAGE = [
    "",
    "{",
    "7",
    '{"type": "open"}',
    '{"type": "open", "tile": "x", "topic": "t"}',
    '{"type": "open", "tile": 0, "topic": "t"}',
    '{"type": "open", "tile": -1, "topic": "t"}',
    '{"type": "open", "tile": 99999999999999, "topic": "t"}',
    '{"type": "open", "tile": 1, "topic": "t", "more": 1}',
    '{"type": "close", "tile": 0}',
    '{"type": "eval", "tile": 1}',
    b"\x00\xff",
    "x" * 100_000,
]


@pytest.mark.parametrize("said", GARBAGE, ids=lambda said: repr(said)[:40])
def test_a_websocket_that_says_what_no_page_says_is_closed(said: str | bytes) -> None:
    async def main() -> None:
        async with serving() as server:
            async with page(server) as hostile:
                send: Callable[[Any], Awaitable[None]] = (
                    hostile.socket.send_bytes
                    if isinstance(said, bytes)
                    else hostile.socket.send_str
                )
                await send(said)
                # 1006: what was too long is not read to its end
                assert await hostile.closed() in (1003, 1006, 1008, 1009)
            async with page(server) as good:
                assert (await good.next(DOMAIN)).header["topics"] == []

    asyncio.run(main())


def test_a_page_has_a_bounded_number_of_tiles() -> None:
    async def main() -> None:
        async with serving() as server, page(server) as greedy:
            for tile in range(1, MAX_TILES + 2):
                await greedy.open(tile, "topic")
            assert await greedy.closed() == 1008

    asyncio.run(main())


def test_a_reliable_publisher_never_waits_for_a_page_that_does_not_read() -> None:
    async def main(sender: tb.Publisher) -> None:
        async with serving() as server, page(server) as lazy:
            await lazy.open(1, "topic")
            await until(lambda: sender.stats.subscribers == 1)
            began = asyncio.get_running_loop().time()
            image = np.zeros((480, 640, 3), np.uint8)
            sent = 0
            (its_page,) = server.pages
            while its_page.dropped < 5:  # newer frames came while one was in flight
                await asyncio.to_thread(sender.publish, image, timeout=PATIENCE)
                sent += 1
                await asyncio.sleep(0.005)
                assert asyncio.get_running_loop().time() < began + PATIENCE
            assert sender.stats.timed_out == sender.stats.waited == 0
            tiles = [await lazy.peek() for _ in range(2)]
            assert sorted(frame.tile for frame in tiles) == [DOMAIN, 1]  # one frame of each
            await lazy.tell(type="drawn", tile=1)
            assert (await lazy.peek()).header["sequence"] > 5  # not the second, but the newest

    with tb.Publisher("topic", reliable=True, depth=2) as sender:
        asyncio.run(main(sender))


def test_a_page_that_asks_for_more_and_reads_nothing_fills_no_memory() -> None:
    async def main(sender: tb.Publisher) -> None:
        async with serving() as server:
            url = URL(server.url)
            deaf, asking = await asyncio.open_connection("127.0.0.1", url.port, limit=2**16)
            deaf._transport.pause_reading()  # type: ignore[attr-defined]
            head = f"GET {url.path}live HTTP/1.1\r\nHost: 127.0.0.1:{url.port}\r\n"
            head += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            asking.write(f"{head}Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
            asking.write(masked('{"type": "open", "tile": 1, "topic": "topic"}'))
            await until(lambda: sender.stats.subscribers == 1)
            (its_page,) = server.pages
            image = np.zeros((480, 640, 3), np.uint8)
            while its_page.dropped < 20:
                asking.write(masked('{"type": "drawn", "tile": 1}'))
                sender.publish(image)
                await asyncio.sleep(0.02)
            (live,) = server._pages.values()
            transport: Any = live.get_extra_info("socket") and live._req.transport
            assert transport.get_write_buffer_size() < 2 * 480 * 480 * 4  # one frame waits there
            asking.transport.abort()
            await until(lambda: not server.pages)
            await until(lambda: sender.stats.subscribers == 0)

    with tb.Publisher("topic", reliable=True, depth=2) as sender:
        asyncio.run(main(sender))


def masked(text: str) -> bytes:
    """A short text of a websocket, as clients send it; the mask is 0."""
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text.encode()


def test_20_pages_share_one_subscription() -> None:
    async def main(sender: tb.Publisher) -> None:
        async with serving() as server:
            pages = [page(server) for _ in range(20)]
            viewers = [await opened.__aenter__() for opened in pages]
            for viewer in viewers:
                await viewer.open(1, "topic")
            for viewer in viewers:
                assert (await viewer.next(1)).header["series"] == {"data": 7.0}
            assert sender.stats.subscribers == 1
            for opened in pages:
                await opened.__aexit__(None, None, None)
            await until(lambda: sender.stats.subscribers == 0)

    with tb.Publisher("topic", history=1) as sender:
        sender.publish(7)
        asyncio.run(main(sender))
