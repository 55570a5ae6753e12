"""The last lines of a process, for `tensorbus pipeline logs`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator

from tensorbus._up.events import LogLine

_MAX_LINES = 1000
_MAX_BYTES = 1 << 20  # of memory, of their texts


class RecentLines:
    """As many of the last lines as are at most 1000, and 1 MiB of text together."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque()
        self._bytes = 0

    def __iter__(self) -> Iterator[LogLine]:
        return iter(self._lines)

    def append(self, line: LogLine) -> None:
        """Adds a line, and forgets the first ones for which there is no room."""
        self._lines.append(line)
        self._bytes += sys.getsizeof(line.text)
        while len(self._lines) > _MAX_LINES or self._bytes > _MAX_BYTES:
            self._bytes -= sys.getsizeof(self._lines.popleft().text)
