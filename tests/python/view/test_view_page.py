"""What is sent to one page, and when."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from support.screens.view_pages import until
from tensorbus._view.channel import Channel, Take
from tensorbus._view.page import Page


class Topic:
    """Gives the frames that the test says."""

    def __init__(self) -> None:
        self.give: Take | None = None
        self.channel = Channel(self._run)

    async def _run(self, give: Take) -> None:
        self.give = give
        try:
            await asyncio.Event().wait()
        finally:
            self.give = None


class Sent(list[bytes]):
    """A websocket that keeps what it is sent."""

    async def send_bytes(self, data: bytes) -> None:
        self.append(data)


@contextlib.asynccontextmanager
async def open_page(topics: dict[str, Topic]) -> AsyncIterator[tuple[Page, Sent]]:
    page, sent = Page(Topic().channel, lambda topic, view: topics[topic].channel), Sent()
    sending = asyncio.create_task(page.send(sent))
    try:
        yield page, sent
    finally:
        sending.cancel()
        await page.close()


async def turns() -> None:
    """All that can run has run."""
    for _ in range(10):
        await asyncio.sleep(0)


def frame(tile: int, content: bytes) -> bytes:
    return tile.to_bytes(4, "little") + content


def test_the_next_frame_is_sent_when_the_page_has_drawn_the_last_and_it_is_the_newest() -> None:
    async def main() -> None:
        topic = Topic()
        async with open_page({"a": topic}) as (page, sent):
            await page.handle_command('{"type": "open", "tile": 3, "topic": "a"}')
            await until(lambda: topic.give)
            assert topic.give
            for content in (b"1", b"2", b"3"):
                topic.give(content)
                await turns()
            assert sent == [frame(3, b"1")]
            await page.handle_command('{"type": "drawn", "tile": 3}')
            await turns()
            assert sent == [frame(3, b"1"), frame(3, b"3")]
            assert page.dropped == 1

    asyncio.run(main())


def test_a_tile_that_is_not_drawn_holds_up_no_other() -> None:
    async def main() -> None:
        topics = {"a": Topic(), "b": Topic()}
        async with open_page(topics) as (page, sent):
            await page.handle_command('{"type": "open", "tile": 1, "topic": "a"}')
            await page.handle_command('{"type": "open", "tile": 2, "topic": "b"}')
            await until(lambda: topics["a"].give and topics["b"].give)
            for topic in topics.values():
                assert topic.give
                topic.give(b"1")
                topic.give(b"2")
            await turns()
            await page.handle_command('{"type": "drawn", "tile": 2}')
            assert topics["b"].give
            topics["b"].give(b"3")
            await turns()
            assert sent == [frame(1, b"2"), frame(2, b"2"), frame(2, b"3")]

    asyncio.run(main())


def test_a_topic_is_watched_while_a_tile_of_any_page_shows_it() -> None:
    async def main() -> None:
        topics = {"a": Topic(), "b": Topic()}
        async with open_page(topics) as (one, _), open_page(topics) as (other, sent):
            for page in (one, other):
                await page.handle_command('{"type": "open", "tile": 1, "topic": "a"}')
            await until(lambda: topics["a"].give)
            await one.handle_command('{"type": "open", "tile": 1, "topic": "b"}')
            assert topics["a"].give
            topics["a"].give(b"1")
            await turns()
            assert sent == [frame(1, b"1")]
            await other.handle_command('{"type": "close", "tile": 1}')
            assert topics["a"].give is None
            assert topics["b"].give
        assert topics["b"].give is None

    asyncio.run(main())
