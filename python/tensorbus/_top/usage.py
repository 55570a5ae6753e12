"""CPU time and memory of a process, from the kernel."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """The usage of one process at one time."""

    time: float
    """When it was read: seconds of `time.monotonic`."""
    started: int
    """When the process began, in clock ticks; it differs for another process with the same pid."""
    cpu_seconds: float
    rss_bytes: int


def usage_of(pid: int, proc: Path = Path("/proc")) -> Usage | None:
    """The usage of a process; None if it has ended, or cannot be read.

    >>> usage_of(os.getpid()).rss_bytes > 0
    True
    """
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # Fields 3 and later of proc_pid_stat(5). The program's name before them may contain anything.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return Usage(
        time.monotonic(),
        int(fields[19]),
        (int(fields[11]) + int(fields[12])) / _TICKS,
        int(fields[21]) * _PAGE,
    )


def cpu_percent(before: Usage | None, after: Usage | None) -> float | None:
    """CPU time between two readings, in percent of one processor; None for different processes.

    >>> cpu_percent(Usage(10.0, 7, 1.0, 0), Usage(12.0, 7, 1.5, 0))
    25.0
    """
    if before is None or after is None or before.started != after.started:
        return None
    if after.time <= before.time:
        return None
    return 100 * (after.cpu_seconds - before.cpu_seconds) / (after.time - before.time)
