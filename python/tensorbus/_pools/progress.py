"""A progress bar on the terminal for long operations."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

_BAR_AFTER = 2.0  # seconds before the bar appears


class Progress:
    """Counts results; after two seconds it shows them with `rich`, if a bar is wanted."""

    def __init__(self, wanted: bool, total: int | None) -> None:
        self._wanted = wanted
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._bar: Any = None
        self._line: Any = None

    def count(self) -> None:
        self._done += 1
        if not self._wanted:
            return
        if self._bar is None and time.monotonic() - self._began >= _BAR_AFTER:
            self._show()
        if self._bar is not None:
            self._bar.update(self._line, completed=self._done)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._line = self._bar.add_task("map", total=self._total, completed=self._done)
        self._bar.start()

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress(wanted: bool | None, items: Any) -> Iterator[Progress]:
    """A progress bar for the results of these items.

    Args:
        wanted: whether to show it; None: only if stderr is a terminal and `rich` is installed.
        items: their length, if they have one, is the total.

    Raises:
        ImportError: `wanted` is True, and `rich` is not installed.
    """
    if wanted and find_spec("rich") is None:
        raise ImportError("a progress bar needs rich: pip install tensorbus[progress]")
    if wanted is None:
        wanted = sys.stderr is not None and sys.stderr.isatty() and find_spec("rich") is not None
    shown = Progress(wanted, len(items) if hasattr(items, "__len__") else None)
    try:
        yield shown
    finally:
        shown.stop()
