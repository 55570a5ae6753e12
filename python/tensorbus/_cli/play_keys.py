"""What the keys of the terminal do while a recording is played."""

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
    """The keys of the command's terminal, if it has one: made and left in the main thread.

    True while the command is in the foreground. Only then the terminal is read, and has the mode in
    which lines are neither edited nor shown: in the background it is the shell's, and the kernel
    would stop the command. The mode of the shell is back while the command is stopped (SIGTSTP),
    and at its end; `obey` sets that of the command again after a shell's `fg`.
    """

    def __init__(self, player: Player) -> None:
        self.ended = False
        self._player = player
        self._terminal = sys.stdin.fileno() if _is_terminal() else None
        self._before: list[Any] | None = None  # the shell's mode, while ours is set
        self._changing = threading.RLock()  # the mode; a signal may come while the thread has it
        self._on_stop: Any = None  # the handler before

    def __bool__(self) -> bool:
        return self._foreground() is not None

    def obey(self, seconds: float) -> None:
        """Does what a key says, if one is pressed within some time."""
        terminal = self._begin()
        if terminal is None or not select.select([terminal], [], [], seconds)[0]:
            return
        with _unstopped():
            try:
                typed = os.read(terminal, 64)
            except OSError:  # the command is in the background now, or the terminal has gone
                return
        for key in typed.decode(errors="replace"):
            self.press(key)

    def press(self, key: str) -> None:
        """Does what one key says; others mean nothing."""
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
        """Sets the mode. None: no key can be read now."""
        with self._changing, _unstopped():
            terminal = self._foreground()
            if terminal is None:
                return None
            try:
                mode = termios.tcgetattr(terminal)
                if mode[tty.LFLAG] & (termios.ICANON | termios.ECHO):
                    self._before = mode
                    tty.setcbreak(terminal, termios.TCSADRAIN)  # what was typed already counts
            except termios.error:  # the terminal has gone
                return None
            return terminal

    def _stop(self, number: int, _: object) -> None:
        """As the default action of SIGTSTP does, with the shell's mode."""
        with self._changing:
            self._restore()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)  # returns after SIGCONT
            signal.signal(number, self._stop)

    def _restore(self) -> None:
        terminal = self._foreground()
        if terminal is not None and self._before is not None:
            with _unstopped(), suppress(termios.error):  # the terminal has gone
                termios.tcsetattr(terminal, termios.TCSADRAIN, self._before)
        self._before = None

    def _foreground(self) -> int | None:
        """The terminal, if the command is in its foreground."""
        try:
            if self._terminal is None or os.tcgetpgrp(self._terminal) != os.getpgrp():
                return None
        except OSError:  # the terminal has gone
            return None
        return self._terminal


@contextmanager
def _unstopped() -> Iterator[None]:
    """A shell may put the command into the background at any moment.

    Then the kernel does not stop it for what this thread does to the terminal: reading fails.
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
