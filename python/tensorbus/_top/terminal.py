"""The terminal of `tensorbus top`: the command ends when its terminal does."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from typing import TextIO

from tensorbus._base.errors import Unsupported

_CANNOT_DRAW = ("", "dumb", "unknown")


def require_terminal() -> None:
    """Checks that the command has a terminal.

    Raises:
        Unsupported: standard input or standard error is not a terminal, or the terminal cannot move
            its cursor.
    """
    if not (_is_terminal(sys.__stdin__) and _is_terminal(sys.__stderr__)):
        raise Unsupported(
            "top needs a terminal for its keys (standard input) and its screen (standard error); "
            "`tensorbus inspect` and `tensorbus topic hz` need none"
        )
    kind = os.environ.get("TERM", "")
    if kind in _CANNOT_DRAW:
        raise Unsupported(f"top cannot draw on a terminal of the type TERM={kind!r}")


def end_with_terminal() -> None:
    """Ends the process when its terminal is gone, even if SIGHUP is ignored."""
    threading.Thread(target=_wait_for_hangup, name="tensorbus-terminal", daemon=True).start()


def end_by(number: int, seconds: float) -> None:
    """Ends the process after some seconds, in case it is stuck in a write."""
    timer = threading.Timer(seconds, os._exit, (128 + number,))
    timer.daemon = True
    timer.start()


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _wait_for_hangup() -> None:
    poll = select.poll()
    for stream in (sys.__stdin__, sys.__stderr__):
        assert stream is not None
        poll.register(stream, 0)  # a hangup is always reported
    poll.poll()
    # The screen cannot be drawn any more, and the drawing thread may be blocked for ever.
    os._exit(128 + signal.SIGHUP)
