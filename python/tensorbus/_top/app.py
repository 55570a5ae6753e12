"""The program: inspects the domain repeatedly and shows the result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import HelpPanel

from tensorbus._base.errors import Error
from tensorbus._inspection.report import Inspection
from tensorbus._inspection.units import shown
from tensorbus._top.page_screen import PageScreen, View
from tensorbus._top.pages import domain_page, page_of
from tensorbus._top.row_table import RowTable
from tensorbus._top.snapshot import Moment, Snapshot, take_moment
from tensorbus._top.terminal import end_by

Source = Callable[[], Inspection]

_END_TIMEOUT = 2.0  # seconds that the end may take after SIGTERM


class Top(App[None]):
    """`tensorbus top`."""

    TITLE = "tensorbus top"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p,space", "pause", "Pause"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(self, source: Source, interval: float = 1.0) -> None:
        """Makes the program.

        Args:
            source: inspects the domain; it may block, and is called in another thread.
            interval: seconds between two inspections, if an inspection takes less.
        """
        super().__init__()
        self._source = source
        self._interval = interval
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self.snapshot = Snapshot(None, Moment(Inspection("", 0, ())))
        self._error = ""
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._is_ending = False

    def end(self, number: int, _frame: object = None) -> None:
        """Ends the command. It is a signal handler, set before the program runs.

        It is not a handler of the event loop: a terminal that accepts no output may block the loop.
        """
        self._is_ending = True
        end_by(number, _END_TIMEOUT)
        if self._own_loop is not None:
            self._own_loop.call_soon_threadsafe(self.exit)

    def get_default_screen(self) -> PageScreen:
        return PageScreen(None, domain_page(self.snapshot), self._view)

    def on_mount(self) -> None:
        self._own_loop = asyncio.get_running_loop()
        if self._is_ending:
            self.call_after_refresh(self.exit)
        self._watch()

    def on_unmount(self) -> None:
        self._own_loop = None

    @work
    async def _watch(self) -> None:
        while True:
            await self._unpaused.wait()
            await asyncio.gather(self._ask(), asyncio.sleep(self._interval))

    async def _ask(self) -> None:
        try:
            after = await asyncio.to_thread(take_moment, self._source)
        except (Error, OSError) as error:
            self._error = str(error) or type(error).__name__
        else:
            if not self._unpaused.is_set():
                return
            self._error = ""
            before = self.snapshot.after
            self.snapshot = Snapshot(before if before.inspection.time_ns else None, after)
        self._update()

    def _update(self) -> None:
        if isinstance(self.screen, PageScreen) and self.screen.is_mounted:
            self.screen.update_page()

    def _view(self) -> View:
        return View(self.snapshot, self._state(), bool(self._error))

    def _state(self) -> str:
        after = self.snapshot.after.inspection
        shown_is = f"{_clock(after)}  {len(after.participants)} processes"
        if self._error:
            return f"cannot inspect the participants: {shown(self._error)}; last: {shown_is}"
        if not after.time_ns:
            return "inspecting the participants"
        return shown_is if self._unpaused.is_set() else f"PAUSED at {shown_is}"

    def action_pause(self) -> None:
        if self._unpaused.is_set():
            self._unpaused.clear()
        else:
            self._unpaused.set()
        self._update()

    def action_help(self) -> None:
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        page = page_of(self.snapshot, event.subject)
        if page is None:
            self.notify("It did not answer, or is gone.", severity="warning")
        else:
            self.push_screen(PageScreen(event.subject, page, self._view))


def _clock(inspection: Inspection) -> str:
    if not inspection.time_ns:
        return "nothing"
    return time.strftime("%H:%M:%S", time.localtime(inspection.time_ns / 1e9))
