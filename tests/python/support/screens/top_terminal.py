"""`tensorbus top` on a terminal of the test's own."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from support.harness import PATIENCE, eventually

TOP = "import sys; from tensorbus._top import run; sys.exit(run(None))"
WIDE = {"TERM": "xterm-256color", "COLUMNS": "160", "LINES": "30"}


class Terminal:
    """A terminal with `tensorbus top` in it."""

    def __init__(self, screen: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._screen = screen
        self._told = ""

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def wait_for(self, text: str) -> None:
        """Reads until this was written."""
        while text not in self._told:
            assert select.select([self._screen], [], [], PATIENCE)[0], self._told[-4000:]
            self._told += os.read(self._screen, 1 << 16).decode(errors="replace")

    def hang_up(self) -> None:
        """Closes the terminal, as a lost connection does."""
        if self._screen >= 0:
            os.close(self._screen)
        self._screen = -1

    def wait_until_stuck(self) -> None:
        """Waits, without reading, until the terminal has no room for what is drawn."""
        terminal = os.open(f"/proc/{self.process.pid}/fd/2", os.O_WRONLY | os.O_NOCTTY)
        try:
            eventually(lambda: not select.select([], [terminal], [], 0)[1])
        finally:
            os.close(terminal)

    def wait_for_end(self) -> int:
        """Reads until the program has ended; its exit status."""
        with suppress(OSError):  # EIO: nobody has the terminal open
            while select.select([self._screen], [], [], PATIENCE)[0]:
                self._told += os.read(self._screen, 1 << 16).decode(errors="replace")
        return self.process.wait(PATIENCE)


@contextmanager
def terminal(domain: str | None = None, **environment: str) -> Iterator[Terminal]:
    """`tensorbus top` of this domain; None: of the test's."""
    ours, theirs = pty.openpty()
    chosen = {} if domain is None else {"TENSORBUS_DOMAIN": domain}
    process = subprocess.Popen(
        (sys.executable, "-c", TOP),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **WIDE, **chosen, **environment},
    )
    os.close(theirs)
    try:
        yield (made := Terminal(ours, process))
    finally:
        process.kill()
        process.wait()
        made.hang_up()


@contextmanager
def ignoring(number: int) -> Iterator[None]:
    """Processes that are started meanwhile ignore a signal, as after `nohup`."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)
