"""The end of a `with` block of a queue: other processes take what waits."""

from __future__ import annotations

import os
import time

from tensorbus import _core
from tensorbus._core import Outcome

# How long it waits, in seconds, while nobody takes an item: where another process that has asked
# for items lives, and where none does.
_STALLED = 60.0
_UNCLAIMED = 5.0

_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(before=_count_fork)


def forks() -> int:
    """How often this process has forked: a child knows the queues of its parent."""
    return _forks


def wait_for_takers(core: _core.Queue, known_elsewhere: bool, forks_before: int) -> None:
    """Shuts the queue down, and waits while other processes take what is in it.

    Args:
        core: the queue, in the process that made it.
        known_elsewhere: it has a name, or was pickled.
        forks_before: `forks()` when it was made.
    """
    before: dict[str, int] | None = None
    since = 0.0  # when something was taken, or came back
    while True:
        _, others, asked_here = core.shutdown(False)
        if others:
            patience = _STALLED
        else:
            may_be_known = known_elsewhere or forks_before != _forks
            patience = _UNCLAIMED if may_be_known and not asked_here else 0.0
        now = core.stats
        if now != before:
            before, since = now, time.monotonic()
        left = since + patience - time.monotonic()
        # In steps: a taker may die meanwhile.
        if core.drain(max(0.0, min(left, 1.0))) is not Outcome.TIMED_OUT or left <= 0:
            return
