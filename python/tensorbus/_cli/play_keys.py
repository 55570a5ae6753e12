"""What the keys of the terminal do while a recording is played."""

from __future__ import annotations

import os
import select
import sys
from types import TracebackType
from typing import Any

from tensorbus._recording.player import Player

KEYS = "space pauses, Enter steps, + and - change the rate, q ends it"
_FASTER = 2**0.5


class Keys:
    """The terminal, if the command has one: true if so. Lines are not edited, nor shown."""

    def __init__(self, player: Player) -> None:
        self.ended = False
        self._player = player
        self._terminal = sys.stdin.fileno() if _is_terminal() else None
        self._before: list[Any] = []

    def __bool__(self) -> bool:
        return self._terminal is not None

    def obey(self, seconds: float) -> None:
        """Does what a key says, if one is pressed within some time."""
        if self._terminal is None or not select.select([self._terminal], [], [], seconds)[0]:
            return
        typed = os.read(self._terminal, 64).decode(errors="replace")
        if not typed:
            self._restore()  # the terminal has gone
        for key in typed:
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
        if self._terminal is not None:
            import termios
            import tty

            self._before = termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal, termios.TCSADRAIN)  # what was typed already counts
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        if self._terminal is not None:
            import termios

            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)
            self._terminal = None


def _is_terminal() -> bool:
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # closed; no file
        return False
