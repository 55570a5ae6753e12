"""A progress bar on the terminal, for what takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

_PATIENCE = 2.0  # seconds without a bar


class Progress:
    """Counts results; draws them with `rich`, if that is wanted and it takes long enough."""

    def __init__(self, wanted: bool, total: int | None) -> None:
        self._wanted = wanted
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._bar: Any = None
        self._line: Any = None

    def count(self) -> None:
        """One more."""
        self._done += 1
        if not self._wanted:
            return
        if self._bar is None and time.monotonic() - self._began >= _PATIENCE:
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
    """A bar for so many results.

    Args:
        wanted: None: if stderr is a terminal and `rich` is installed.
        items: what the results are of; may have a length.

    Raises:
        ImportError: it is wanted, and `rich` is not installed.
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
