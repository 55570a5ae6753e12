"""The signals by which a command is told to end."""

from __future__ import annotations

import signal


def ending_signals() -> list[signal.Signals]:
    """SIGINT, SIGTERM and SIGHUP (the terminal has gone); under nohup without the last.

    >>> [each.name for each in ending_signals()]
    ['SIGINT', 'SIGTERM', 'SIGHUP']
    """
    found = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        found.append(signal.SIGHUP)
    return found
