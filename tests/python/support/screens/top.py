"""`tensorbus top` without a terminal: a source that the test answers for, and what is shown."""

from __future__ import annotations

import asyncio
import inspect
import queue
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from support.harness import PATIENCE
from support.inspections import inspection
from tensorbus._inspection.report import Inspection
from tensorbus._top.app import Top
from tensorbus._top.row_table import RowTable

Answer = Inspection | Exception


class Source:
    """What the participants say: as many inspections as the test gives, or what goes wrong."""

    def __init__(self) -> None:
        self.asked = 0
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    def __call__(self) -> Inspection:
        self.asked += 1
        answer = self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, answer: Answer) -> None:
        self._answers.put(answer)


class Session:
    """A running `Top`, with keys to press and tables to read."""

    def __init__(self, app: Top, pilot: Pilot[None], source: Source) -> None:
        self.app = app
        self.pilot = pilot
        self.source = source

    async def show(self, *answers: Answer) -> None:
        """Answers so many questions, and waits until all has been shown."""
        for answer in answers:
            asked = self.source.asked
            self.source.answer(answer)
            await self.until(lambda asked=asked: self.source.asked > asked)  # type: ignore[misc]
        await self.pilot.pause()

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"never so: {inspect.getsource(condition).strip()}"
            await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    @property
    def table(self) -> RowTable:
        """The one that can be seen."""
        (shown,) = (table for table in self.app.screen.query(RowTable) if table.region.width)
        return shown

    def rows(self) -> list[dict[str, str]]:
        """The rows of the table, in their order, by the titles of the columns."""
        table = self.table
        titles = [str(column.label).strip("▲▼") for column in table.ordered_columns]
        return [
            dict(zip(titles, map(str, cells), strict=True))
            for cells in (self._cells(place) for place in range(table.row_count))
        ]

    def column(self, title: str) -> list[str]:
        return [row[title] for row in self.rows()]

    def red(self) -> list[str]:
        """The first columns of the red rows."""
        red = self.table.get_component_rich_style("row-table--red", partial=True).color
        firsts = [self._cells(place)[0] for place in range(self.table.row_count)]
        return [str(first) for first in firsts if getattr(first.style, "color", None) == red]

    def chosen(self) -> str:
        """The first column of the row under the cursor."""
        return str(self._cells(self.table.cursor_row)[0])

    def text(self, name: str) -> str:
        """Of one of the lines around the tables: title, state, troubles."""
        return str(self.app.screen.query_one(f"#{name}", Static).content)

    def _cells(self, place: int) -> list[Any]:
        return [cell.__rich__() for cell in self.table.get_row_at(place)]


@asynccontextmanager
async def session(*answers: Answer, size: tuple[int, int] = (160, 30)) -> AsyncIterator[Session]:
    """Of which these answers have been shown already."""
    source = Source()
    app = Top(source, interval=0)
    try:
        async with app.run_test(size=size) as pilot:
            running = Session(app, pilot, source)
            await running.until(lambda: source.asked)
            await running.show(*answers)
            yield running
    finally:
        source.answer(inspection())  # for the thread that waits for it


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(test(), 3 * PATIENCE)

    asyncio.run(main())
