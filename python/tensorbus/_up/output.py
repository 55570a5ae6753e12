"""The output of `tensorbus up`."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from tensorbus._base.text import json_text
from tensorbus._inspection.units import shown
from tensorbus._up.events import (
    OWN_NAME,
    Event,
    ExpectationChange,
    LogLine,
    Notice,
    StateChange,
)
from tensorbus._up.log_files import LogFiles
from tensorbus._up.writer import Writer

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_KINDS = {
    LogLine: "log",
    StateChange: "process_state",
    ExpectationChange: "expectation",
    Notice: "notice",
}
Style = Literal["plain", "colour", "json"]


def json_line(event: Event) -> str:
    """An event as a line of JSON."""
    return json_text({"kind": _KINDS[type(event)], **asdict(event)}) + "\n"


def formatter(names: list[str], style: Style) -> Callable[[Event], str]:
    """A function that returns an event as a line of text.

    Args:
        names: of all processes.
        style: "colour" adds times, and a colour for each name.
    """
    if style == "json":
        return json_line
    width = max(map(len, [*names, OWN_NAME]))

    def plain(event: Event) -> str:
        line = _line(event)
        return f"{line.process:{width}} | {line.text}\n"

    def coloured(event: Event) -> str:
        name, _, rest = plain(event).partition(" |")
        clock = time.strftime("%H:%M:%S", time.localtime(event.time_ns // 10**9))
        key = name.strip()
        colour = _COLOURS[names.index(key) % len(_COLOURS)] if key in names else 1
        return f"\x1b[2m{clock}\x1b[0m \x1b[{colour}m{name} |\x1b[0m{rest}"

    return coloured if style == "colour" else plain


def _line(event: Event) -> LogLine:
    """The line of an event in the files: those of the supervisor itself are in `up.log`."""
    if isinstance(event, LogLine):
        return event
    subject = "" if isinstance(event, Notice) else f"{event.process}: "
    return LogLine(OWN_NAME, event.time_ns, shown(f"{subject}{event.text}"))


class Output:
    """Writes events to standard output, and to files.

    Each has its own thread: a reader that is slow costs the files no line, and a slow disk costs
    the reader none.
    """

    def __init__(self, names: list[str], style: Style, folder: Path | None) -> None:
        self._format = formatter(names, style)
        self._encoding = sys.stdout.encoding if sys.stdout else "utf-8"
        self._readable = True
        self._printer = Writer("tensorbus-up-output", self._print)
        self._files = LogFiles(folder) if folder else None
        self._filer = Writer("tensorbus-up-files", self._file) if folder else None

    def put(self, event: Event) -> None:
        """Writes the event later. It is dropped where too many are waiting."""
        self._printer.put(event)
        if self._filer:
            self._filer.put(event)

    def close(self) -> None:
        """Writes what is waiting, unless it is not taken within 2 s."""
        if self._filer and self._filer.close() and self._files:
            self._files.close()
        self._printer.close()

    def _file(self, event: Event | None, dropped: int) -> None:
        assert self._files is not None
        if dropped:
            text = f"{dropped} lines are missing in the log files: the disk is slow"
            self._printer.put(Notice(time.time_ns(), text))
        if event and (problem := self._files.write(_line(event))):
            self._printer.put(Notice(event.time_ns, problem))

    def _print(self, event: Event | None, dropped: int) -> None:
        if dropped:
            text = f"{dropped} lines were dropped: the reader of this output is slow"
            self._send(Notice(event.time_ns if event else time.time_ns(), text))
        if event:
            self._send(event)

    def _send(self, event: Event) -> None:
        data = self._format(event).encode(self._encoding, "backslashreplace")
        while data and self._readable:
            try:
                data = data[os.write(1, data) :]
            except BlockingIOError:  # another process has made the terminal or pipe non-blocking
                select.select([], [1], [])
            except OSError:  # the terminal or the pipe is gone; the pipeline goes on
                self._readable = False
