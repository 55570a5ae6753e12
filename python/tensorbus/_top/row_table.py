"""The widget of a table, which updates, sorts and filters its rows."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import DataTable

from tensorbus._top.columns import Column, Columns, Row, Subject, matches

# Removing more rows than this takes longer than adding all remaining rows to an empty table.
_MAX_REMOVED = 20


class RowTable(DataTable["_Cell"]):
    """Shows the rows of the last `show`.

    A cell formats its text when it is drawn, so that only visible cells take time.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Open"),
        Binding("less_than_sign", "sort_by(-1)", "Sort by", key_display="< >"),
        Binding("greater_than_sign", "sort_by(1)", "Sort by the next column", show=False),
        Binding("r", "reverse", "Reverse"),
    ]
    HELP = """\
A row in red slows others down; the last column has the reason. `Enter` opens a page for the row,
`Esc` goes back. A click on a column's head sorts by it, another click reverses the order.
"""
    COMPONENT_CLASSES: ClassVar[set[str]] = {*DataTable.COMPONENT_CLASSES, "row-table--red"}
    DEFAULT_CSS = """
    RowTable {
        height: 1fr;
        & > .row-table--red { color: $text-error; text-style: bold; }
        & > .datatable--fixed { background: $surface; color: $foreground; }
        & > .datatable--cursor, & > .datatable--fixed-cursor,
        &:focus > .datatable--cursor, &:focus > .datatable--fixed-cursor {
            background: $primary 20%;
        }
        &:focus { background-tint: $foreground 0%; }
    }
    """

    class Chosen(Message):
        """The user chose a row that opens a page."""

        def __init__(self, subject: Subject) -> None:
            super().__init__()
            self.subject = subject

    def __init__(self, columns: Columns, **options: Any) -> None:
        super().__init__(cursor_type="row", fixed_columns=1, **options)
        self.cursor_foreground_priority = "renderable"  # a red row stays red under the cursor
        self._shown_columns = columns
        self._lines: dict[str, _Line] = {}
        self._sorted_by = 0
        self._reversed = False

    def on_mount(self) -> None:
        for place, column in enumerate(self._shown_columns):
            width = None if column.width is None else max(column.width, len(column.title) + 1)
            self.add_column("▲" + column.title, key=str(place), width=width)
        self._sort()

    def show(self, rows: list[Row], wanted: str = "") -> None:
        """Shows the rows that match the filter. The cursor stays at its row."""
        rows = [row for row in rows if not wanted or matches(row, self._shown_columns, wanted)]
        followed = self._row_at_cursor() if self.cursor_row > 0 else None
        self._remove_others({row.key for row in rows})
        for row in rows:
            if line := self._lines.get(row.key):
                line.row = row
            else:
                self._add(row)
        self._sort()
        self._follow(followed)

    def action_sort_by(self, step: int) -> None:
        """Sorts by the column that is `step` columns to the right of the current column."""
        self._sort_by((self._sorted_by + step) % len(self._shown_columns))

    def action_reverse(self) -> None:
        self._reversed = not self._reversed
        self._sort()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        if event.column_index == self._sorted_by:
            self.action_reverse()
        else:
            self._sort_by(event.column_index)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        subject = self._lines[str(event.row_key.value)].row.opens
        if subject is not None:
            self.post_message(self.Chosen(subject))

    def _remove_others(self, keys: set[str]) -> None:
        gone = self._lines.keys() - keys
        if len(gone) > _MAX_REMOVED:
            self.clear()
            self._lines.clear()
            return
        for key in gone:
            self.remove_row(key)
            del self._lines[key]

    def _add(self, row: Row) -> None:
        line = self._lines[row.key] = _Line(row)
        cells = (_Cell(self, line, column) for column in self._shown_columns)
        self.add_row(*cells, key=row.key)

    def _sort_by(self, column: int) -> None:
        """Sorts numbers in descending order, words in ascending order, reasons first."""
        self._sorted_by = column
        self._reversed = self._shown_columns[column].is_number or column == len(self.columns) - 1
        self._sort()

    def _sort(self) -> None:
        for place, (column, shown) in enumerate(
            zip(self.ordered_columns, self._shown_columns, strict=True)
        ):
            mark = ("▼" if self._reversed else "▲") if place == self._sorted_by else ""
            column.label = Text(mark + shown.title, justify=_side(shown))
        self.sort(str(self._sorted_by), key=_Cell.order, reverse=self._reversed)

    def _row_at_cursor(self) -> str | None:
        if not self.is_valid_row_index(self.cursor_row):
            return None
        return str(self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value)

    def _follow(self, key: str | None) -> None:
        if key in self._lines:
            place = self.get_row_index(key)
            self.move_cursor(row=place, scroll=place != self.cursor_row)


def _side(column: Column) -> Literal["left", "right"]:
    return "right" if column.is_number else "left"


class _Line:
    """The row that its cells share, replaced in each update."""

    __slots__ = ("row",)

    def __init__(self, row: Row) -> None:
        self.row = row


class _Cell:
    """A cell, which formats its text when it is drawn."""

    __slots__ = ("_column", "_line", "_table")

    def __init__(self, table: RowTable, line: _Line, column: Column) -> None:
        self._table = table
        self._line = line
        self._column = column

    def order(self) -> Any:
        return self._column.order(self._line.row)

    def __rich__(self) -> Text:
        row = self._line.row
        style = self._table.get_component_rich_style("row-table--red", partial=True)
        return Text(
            self._column.text(row),
            style if row.why else "",
            justify=_side(self._column),
            no_wrap=True,
            overflow="ellipsis",
        )
