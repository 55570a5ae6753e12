"""The keys of the terminal while `tensorbus play` runs."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from tensorbus._recording.player import Player

KEYS = "space pauses, Enter steps, + and - change the rate, q ends it"
_FASTER = 2**0.5


class Keys:
    """The keys of the command's terminal, if it has one. Enter and leave it in the main thread.

    The object is true while the command is in the terminal's foreground. Only then does it read the
    terminal, in a mode without echo and line editing. In the background, the kernel would stop the
    command for reading the terminal. The shell's mode is restored when the command is stopped
    (SIGTSTP) and when it ends; `handle` sets the command's mode again after `fg`.
    """

    def __init__(self, player: Player) -> None:
        self.ended = False
        self._player = player
        self._terminal = sys.stdin.fileno() if _is_terminal() else None
        self._before: list[Any] | None = None  # the shell's mode, while the command's mode is set
        self._changing = threading.RLock()  # guards the mode; reentrant for the signal handler
        self._on_stop: Any = None  # the previous handler of SIGTSTP

    def __bool__(self) -> bool:
        return self._foreground() is not None

    def handle(self, seconds: float) -> None:
        """Waits for a key for at most `seconds`, and handles all keys that were pressed."""
        terminal = self._begin()
        if terminal is None or not select.select([terminal], [], [], seconds)[0]:
            return
        with _unstopped():
            try:
                typed = os.read(terminal, 64)
            except OSError:  # the command is in the background now, or the terminal is gone
                return
        for key in typed.decode(errors="replace"):
            self.press(key)

    def press(self, key: str) -> None:
        """Handles one key. Other keys do nothing."""
        player = self._player
        if key == " ":
            if player.stats.paused:
                player.resume()
            else:
                player.pause()
        elif key in "\r\n":
            player.step()
        elif key in "+-":
            player.rate *= _FASTER if key == "+" else 1 / _FASTER
        elif key == "q":
            self.ended = True

    def __enter__(self) -> Keys:
        if self._terminal is not None and signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            self._on_stop = signal.signal(signal.SIGTSTP, self._stop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changing:
            self._restore()
            self._terminal = None
        if self._on_stop is not None:
            signal.signal(signal.SIGTSTP, self._on_stop)

    def _begin(self) -> int | None:
        """Sets the command's mode and returns the terminal; None if no key can be read now."""
        with self._changing, _unstopped():
            terminal = self._foreground()
            if terminal is None:
                return None
            try:
                mode = termios.tcgetattr(terminal)
                if mode[tty.LFLAG] & (termios.ICANON | termios.ECHO):
                    self._before = mode
                    tty.setcbreak(terminal, termios.TCSADRAIN)  # keeps keys that were typed before
            except termios.error:  # the terminal is gone
                return None
            return terminal

    def _stop(self, number: int, _: object) -> None:
        """Restores the shell's mode, and then does the default action of SIGTSTP."""
        with self._changing:
            self._restore()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)  # returns after SIGCONT
            signal.signal(number, self._stop)

    def _restore(self) -> None:
        terminal = self._foreground()
        if terminal is not None and self._before is not None:
            with _unstopped(), suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(terminal, termios.TCSADRAIN, self._before)
        self._before = None

    def _foreground(self) -> int | None:
        """The terminal, if the command is in its foreground."""
        try:
            if self._terminal is None or os.tcgetpgrp(self._terminal) != os.getpgrp():
                return None
        except OSError:  # the terminal is gone
            return None
        return self._terminal


@contextmanager
def _unstopped() -> Iterator[None]:
    """A context in which the kernel does not stop the process for using the terminal.

    A shell may put the command into the background at any moment. In this context, reading then
    fails.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTIN, signal.SIGTTOU))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_terminal() -> bool:
    try:
        return sys.stdin.isatty()
    except (ValueError, AttributeError):  # closed; no file
        return False
