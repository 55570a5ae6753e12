"""The page in a real browser, with real publishers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from support.inspections import inspection, participant, publisher, silent, subscriber
from support.screens.chromium import WHY_NO_CHROMIUM, Tab, chromium
from support.screens.view_pages import serving, until
from tensorbus._inspection.inspection import inspect
from tensorbus._inspection.report import Inspection
from tensorbus._view import overview
from tensorbus._view.server import Server
from tensorbus._view.summary import summary

pytestmark = [
    pytest.mark.skipif(WHY_NO_CHROMIUM is not None, reason=str(WHY_NO_CHROMIUM)),
    pytest.mark.slow,
]

ROWS = "[...document.querySelectorAll('#topics tbody tr')]"


def in_browser(
    folder: Path,
    look: Callable[[Tab, Server], Awaitable[None]],
    source: Callable[[], Inspection] = inspect,
) -> None:
    """Opens the page, looks, and finds that it asked for nothing from outside."""

    async def main() -> None:
        async with serving(source) as server, chromium(folder / "profile") as browser:
            tab = await browser.open(server.url)
            await tab.until("document.getElementById('state').textContent === 'live'")
            await look(tab, server)
            assert tab.errors == []
            here = server.url.removeprefix("http://")
            assert [
                url for url in tab.requested if url.partition("://")[2][: len(here)] != here
            ] == []

    asyncio.run(main())


def tile(topic: str) -> str:
    return f".tile[data-topic='{topic}']"


async def pixel(tab: Tab, topic: str, x: float, y: float) -> list[int]:
    """What a tile's canvas has at a place; 0 to 1 from its upper left corner."""
    found: list[int] = await tab.js(
        f'(() => {{ const canvas = document.querySelector("{tile(topic)} .picture canvas");'
        f"const place = [{x} * canvas.width, {y} * canvas.height, 1, 1].map(Math.floor);"
        "return [...canvas.getContext('2d').getImageData(...place).data]; })()"
    )
    return found


async def open_tile(tab: Tab, topic: str, kind: str) -> None:
    row = f"{ROWS}.find((row) => row.cells[0].textContent === '{topic}')"
    await tab.until(row)
    await tab.js(f"{row}.click()")
    await tab.until(f"document.querySelector(\"{tile(topic)}\")?.dataset.kind === '{kind}'")


@contextmanager
def publishing(**messages: Any) -> Iterator[None]:
    """Publishes each message on the topic of its name, 50 times a second."""
    stop = threading.Event()
    with ExitStack() as stack:
        senders = {name: stack.enter_context(tb.Publisher(name)) for name in messages}

        def run() -> None:
            while not stop.wait(0.02):
                for name, sender in senders.items():
                    sender.publish(messages[name])

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def test_each_kind_of_topic_is_drawn(tmp_path: Path) -> None:
    image = np.zeros((60, 80, 3), np.uint8)
    image[:, 40:] = (200, 100, 50)
    heat = np.zeros((40, 40), np.float32)
    heat[20:] = 5
    heat[:, :10] = np.nan
    grid = np.linspace(-1, 1, 40)
    points = np.array([(x, y, x * y) for x in grid for y in grid], np.float32)
    messages = {
        "image": tb.ImageMessage(image),
        "heat": heat,
        "points": tb.PointCloudMessage(points, colors=np.full((1600, 3), (255, 0, 0), np.uint8)),
        "numbers": {"speed": 2.5, "nothing": float("nan")},
        "curve": np.sin(np.linspace(0, 6, 300)),
        "text": {"name": "<b>cart</b>", "raw": b"x"},
    }

    async def look(tab: Tab, server: Server) -> None:
        await open_tile(tab, "image", "image")
        assert await pixel(tab, "image", 0.75, 0.5) == [200, 100, 50, 255]
        assert await pixel(tab, "image", 0.25, 0.5) == [0, 0, 0, 255]
        await open_tile(tab, "heat", "heat")
        assert await pixel(tab, "heat", 0.75, 0.75) == [253, 231, 37, 255]
        assert await pixel(tab, "heat", 0.1, 0.5) == [0, 0, 0, 0]
        await open_tile(tab, "points", "points")
        assert await pixel(tab, "points", 0.5, 0.5) == [255, 0, 0, 255]
        await open_tile(tab, "numbers", "numbers")
        await open_tile(tab, "curve", "curve")
        drawn = "[...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
        for name in ("numbers", "curve"):
            canvas = f'document.querySelector("{tile(name)} .picture canvas")'
            assert await tab.js(
                f"(() => {{ const canvas = {canvas}; return {drawn}.some(Boolean); }})()"
            )
        await open_tile(tab, "text", "text")
        text = await tab.js(f'document.querySelector("{tile("text")} pre").textContent')
        assert text.splitlines() == ["name: '<b>cart</b>'", "raw: b'x'"]
        assert await tab.until(f'document.querySelector("{tile("heat")} .latency").textContent')
        assert server.topics == set(messages)

    with publishing(**messages):
        in_browser(tmp_path, look)


def test_tiles_follow_their_topic_and_close(tmp_path: Path) -> None:
    async def look(tab: Tab, server: Server) -> None:
        await tab.until("document.querySelector('#graph .topic')")
        await tab.click("#graph .topic")
        sequence = f'Number(document.querySelector("{tile("topic")}")?.dataset.sequence)'
        first = await tab.until(sequence)
        await tab.until(f"{sequence} > {first} + 20")
        select = f'document.querySelector("{tile("topic")} select")'
        await tab.js(f"({select}.value = '(text)', {select}.dispatchEvent(new Event('change')))")
        await tab.until(f'document.querySelector("{tile("topic")} pre")')
        assert server.topics == {"topic"}
        await tab.click(f"{tile('topic')} button")
        await until(lambda: not server.topics)
        assert await tab.js("document.querySelectorAll('.tile').length") == 0

    with publishing(topic=np.zeros((20, 20))):
        in_browser(tmp_path, look)


def test_the_page_shows_what_the_inspection_says(tmp_path: Path) -> None:
    topics = [f"topic/{number}" for number in range(100)]
    seconds = iter(range(1, 1000))

    def source() -> Inspection:
        second = next(seconds)
        sent = [
            publisher(name, number=number, sent=number * second, node=f"n{number % 7}")
            for number, name in enumerate(topics)
        ]
        reader = participant(2, subscribers=tuple(subscriber(name) for name in topics[::3]))
        dead = replace(silent(3), process="stopped")
        return inspection(
            participant(1, process="<i>w</i>", publishers=tuple(sent)), reader, dead, at=second
        )

    async def look(tab: Tab, server: Server) -> None:
        await tab.until(f"{ROWS}.length === 100")
        await tab.until(f"{ROWS}.some((row) => row.cells[2].textContent === '99 Hz')")
        assert await tab.js("document.querySelectorAll('#processes tbody tr').length") == 3
        assert await tab.js("document.querySelector('#processes .bad').textContent") == "stopped 3"
        assert await tab.js("document.querySelectorAll('#graph .topic').length") == 14
        assert await tab.js("document.querySelectorAll('i').length") == 0  # text is not HTML
        await tab.js(
            "(document.getElementById('filter').value = 'C/42',"
            "document.getElementById('filter').dispatchEvent(new Event('input')))"
        )
        assert await tab.js(f"{ROWS}.map((row) => row.cells[0].textContent)") == ["topic/42"]

    in_browser(tmp_path, look, source)


def test_a_frame_that_cannot_be_drawn_does_not_end_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [0]

    def first_broken(*seen: Any) -> dict[str, Any]:
        made[0] += 1
        return {} if made[0] == 1 else summary(*seen)

    monkeypatch.setattr(overview, "summary", first_broken)

    async def look(tab: Tab, server: Server) -> None:
        await tab.until(f"{ROWS}.length === 1")

    report = participant(1, publishers=(publisher("topic"),))
    in_browser(tmp_path, look, lambda: inspection(report))


def test_pipelines_are_shown_while_there_are_some(tmp_path: Path) -> None:
    path = tmp_path / "robot.toml"
    path.write_text('[process.camera]\nrun = "sleep 1000"\n')
    shown = "document.getElementById('pipelines-card').offsetParent !== null"

    async def look(tab: Tab, _: Server) -> None:
        await tab.until("document.getElementById('domain').textContent")
        assert await tab.js(shown) is False
        with tb.Pipeline.load(path) as pipeline:
            await asyncio.to_thread(pipeline.wait_until_healthy, timeout=60)
            [camera] = pipeline.status()
            row = f"'robot: camera|running|{camera.pid}|0|'"
            cells = "[...document.querySelectorAll('#pipelines tbody td')]"
            await tab.until(f"{cells}.map((cell) => cell.textContent).join('|') === {row}")
            assert await tab.js(shown) is True
        await tab.until(f"!({shown})")

    in_browser(tmp_path, look)
