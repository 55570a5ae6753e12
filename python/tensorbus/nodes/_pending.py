"""Waiting for what another process is asked, and for that process's end at the same time."""

from __future__ import annotations

import math
import select
import time
from contextlib import nullcontext

from tensorbus._core import Outcome, Pending, Sample
from tensorbus._errors import Closed, Timeout
from tensorbus._loop_poller import Wait

# A signal that another thread got does not end a poll: Python handles it after this time.
_SIGNAL_SLICE = 0.1


class Lifeline:
    """Tells when the process that has a queue is gone, or has closed it.

    It waits for the end of all of the queue's items, which are never done with, and so hears
    nothing but that.
    """

    def __init__(self, joining: Pending) -> None:
        self._joining = joining
        self._cut = False

    @property
    def cut(self) -> bool:
        self._cut = self._cut or self._joining.take() is not Outcome.TIMED_OUT
        return self._cut

    def fileno(self) -> int:
        """Readable when it is cut."""
        return self._joining.fileno()

    def close(self) -> None:
        self._joining.cancel()


class Asked:
    """A request of a queue that is under way while the lifeline holds. Given up, it took nothing.

    Args:
        pending: the request.
        deadline: of the monotonic clock.
        life: of the process that is to do something about it, if that is not the queue's own.
    """

    def __init__(self, pending: Pending, deadline: float, life: Lifeline | None = None) -> None:
        self._pending = pending
        self._deadline = deadline
        self._life = life

    async def answer(self) -> Sample | Outcome:
        """
        Raises:
            Closed: that process is gone.
            Timeout: the deadline is over.
        """
        left = self._left()
        try:
            with (
                Wait(self._pending.fileno(), None if math.isinf(left) else left) as wait,
                nullcontext() if self._life is None else _Also(self._life.fileno(), wait),
            ):
                while (found := self._look()) is None:
                    self._check(wait.over)
                    await wait.woken()
                return found
        except BaseException:
            self._pending.cancel()
            raise

    def answer_sync(self) -> Sample | Outcome:
        """The same, without an event loop."""
        poll = select.poll()
        poll.register(self._pending.fileno(), select.POLLIN)
        if self._life is not None:
            poll.register(self._life.fileno(), select.POLLIN)
        try:
            while (found := self._look()) is None:
                left = self._left()
                self._check(left <= 0)
                poll.poll(math.ceil(min(left, _SIGNAL_SLICE) * 1000))
            return found
        except BaseException:
            self._pending.cancel()
            raise

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0)

    def _look(self) -> Sample | Outcome | None:
        """Twice if it is gone: it may have answered first."""
        for _ in range(2):
            found = self._pending.take()
            if found is Outcome.CLOSED:
                break
            if found is not Outcome.TIMED_OUT:
                return found
            if self._life is None or not self._life.cut:
                return None
        raise Closed("the process that was asked is gone, or has closed its queue")

    @staticmethod
    def _check(over: bool) -> None:
        if over:
            raise Timeout("no answer in time")


class _Also(Wait):
    """Wakes who waits for another descriptor."""

    def __init__(self, descriptor: int, other: Wait) -> None:
        super().__init__(descriptor, None)
        self._other = other

    def wake(self) -> None:
        self._other.wake()
