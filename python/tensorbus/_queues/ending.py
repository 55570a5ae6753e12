"""The end of a `with` block of a queue: it waits until other processes have taken the items."""

from __future__ import annotations

import os
import time

from tensorbus import _core
from tensorbus._core import Outcome

# Seconds to wait without progress if another process that has called `get` is alive.
_STALL_TIMEOUT = 60.0
# Seconds to wait without progress if no other process has called `get`.
_NO_GETTER_TIMEOUT = 5.0

_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(before=_count_fork)


def forks() -> int:
    """The number of forks of this process so far. Each child can use the queues of its parent."""
    return _forks


def wait_for_getters(core: _core.Queue, shared_before: bool, forks_before: int) -> None:
    """Shuts the queue down, and waits while other processes take its items.

    Args:
        core: the queue, in its server.
        shared_before: other processes may have its name, address or pickle.
        forks_before: `forks()` when the queue was made.
    """
    last_stats: dict[str, int] | None = None
    changed_at = 0.0  # time of the last get, or of the last returned item
    while True:
        _, has_other_getters, asked_here = core.shutdown(False)
        if has_other_getters:
            patience = _STALL_TIMEOUT
        else:
            may_be_shared = shared_before or forks_before != _forks
            patience = _NO_GETTER_TIMEOUT if may_be_shared and not asked_here else 0.0
        stats = core.stats
        if stats != last_stats:
            last_stats, changed_at = stats, time.monotonic()
        left = changed_at + patience - time.monotonic()
        # At most a second at a time, because the last getter may die meanwhile.
        if core.drain(max(0.0, min(left, 1.0))) is not Outcome.TIMED_OUT or left <= 0:
            return
