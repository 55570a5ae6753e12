"""The screen: the tables of a page, the troubles, and the filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Input, Static, TabbedContent, TabPane

from tensorbus._inspection.troubles import Trouble
from tensorbus._top.columns import Page, Subject
from tensorbus._top.pages import domain_page, page_of
from tensorbus._top.row_table import RowTable
from tensorbus._top.snapshot import Snapshot

_MAX_TROUBLES = 5  # lines of troubles


class View(NamedTuple):
    """The data that screens show."""

    snapshot: Snapshot
    state: str
    """When the snapshot was taken, or why there is no newer snapshot."""
    failed: bool
    """The last inspection failed."""


class PageScreen(Screen[None]):
    """The screen of the whole domain, or of one topic, process, queue or machine."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n + 1), f"open_table({n})", f"Table {n + 1}", show=False) for n in range(5)),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape,backspace", "back", "Back"),
    ]
    AUTO_FOCUS = "RowTable"
    DEFAULT_CSS = """
    PageScreen {
        overflow: hidden;
        #title { text-style: bold; padding: 0 1; height: 1; }
        #state { padding: 0 1; height: 1; color: $text-muted; }
        #state.failed { color: $text-error; text-style: bold; }
        #troubles { padding: 0 1; max-height: 30%; color: $text-error; }
        #filter { display: none; border: none; height: 1; padding: 0 1; }
        TabbedContent, ContentSwitcher, TabPane { height: 1fr; padding: 0; }
    }
    """

    def __init__(self, subject: Subject | None, page: Page, view: Callable[[], View]) -> None:
        """Makes the screen of a page.

        Args:
            subject: the page's subject; None: the whole domain.
            page: the subject's page now; later pages have the same tables.
            view: returns the current view.
        """
        super().__init__()
        self._subject = subject
        self._page = page
        self._view = view

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield Static(id="state", markup=False)
        with TabbedContent():
            for place, table in enumerate(self._page.tables):
                with TabPane(f"{place + 1} {table.name}", id=f"pane{place}"):
                    yield RowTable(table.columns, id=f"table{place}")
        yield Static(id="troubles", markup=False)
        yield Input(placeholder="letters of a name", id="filter")
        yield Footer(show_command_palette=False)

    def update_page(self) -> None:
        """Shows the current view."""
        snapshot, state, failed = self._view()
        page = page_of(snapshot, self._subject) if self._subject else domain_page(snapshot)
        self._page = page or self._page
        gone = "" if page else " is gone."
        self.query_one("#title", Static).update(f"{self._page.title}{gone}  {self._page.about}")
        self.query_one("#state", Static).update(state)
        self.query_one("#state").set_class(failed, "failed")
        self.query_one("#troubles", Static).update(_lines(snapshot.troubles))
        self.query_one("#troubles").display = bool(snapshot.troubles)
        self._show_table()

    def on_screen_resume(self) -> None:
        self.update_page()

    def action_open_table(self, place: int) -> None:
        if place < len(self._page.tables):
            self.query_one(TabbedContent).active = f"pane{place}"
            self.query_one(f"#table{place}").focus()

    def action_filter(self) -> None:
        self._filter().display = True
        self._filter().focus()
        self.refresh_bindings()

    def action_back(self) -> None:
        """Removes the filter; without a filter, returns to the previous page."""
        if self._filter().display:
            self._filter().value = ""
            self._leave_filter()
        elif self._subject is not None:
            self.app.pop_screen()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """True if a key has an effect now; the footer shows only keys with an effect."""
        return action != "back" or self._subject is not None or self._filter().display

    def on_input_changed(self) -> None:
        self._show_table()

    def on_input_submitted(self) -> None:
        self._leave_filter()

    def on_tabbed_content_tab_activated(self) -> None:
        self._show_table()

    def _leave_filter(self) -> None:
        self._filter().display = bool(self._filter().value)
        self._table().focus()
        self.refresh_bindings()

    def _show_table(self) -> None:
        """Computes and shows the rows of the visible table."""
        rows = self._page.tables[self._place()].rows()
        self._table().show(rows, self._filter().value)

    def _place(self) -> int:
        return int(self.query_one(TabbedContent).active.removeprefix("pane") or 0)

    def _filter(self) -> Input:
        return self.query_one("#filter", Input)

    def _table(self) -> RowTable:
        return self.query_one(f"#table{self._place()}", RowTable)


def _lines(troubles: list[Trouble]) -> str:
    """The worst troubles as sentences, and the number of further troubles."""
    lines = [str(trouble) for trouble in troubles]
    if len(lines) > _MAX_TROUBLES:
        more = len(lines) - (_MAX_TROUBLES - 1)
        lines = [*lines[: _MAX_TROUBLES - 1], f"and {more} more: sort by the last column"]
    return "\n".join(lines)
