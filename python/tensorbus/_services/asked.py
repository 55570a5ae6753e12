"""Waiting for what another process is asked, and for that process's end at the same time."""

from __future__ import annotations

import math
import select
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext

from tensorbus._aio.loop_poller import Wait
from tensorbus._base.errors import Closed, Timeout
from tensorbus._core import Outcome, Pending, Sample

# A signal that another thread got does not end a poll: Python handles it after this time.
_SIGNAL_SLICE = 0.1
_WAIT_SLICE = 3600.0
# Seconds for an answer that is here to be handed to us: its owner may be asked for its memory.
_MOMENT = 1.0


class Lifeline:
    """Tells when the process that has a queue is gone, or has closed it.

    It waits for the end of all of the queue's items, which are never done with, and so hears
    nothing but that. All calls of the queue share it, in any threads.
    """

    def __init__(self, joining: Pending) -> None:
        self._joining = joining
        self._cut = False
        self._lock = threading.Lock()  # a request is for one thread at a time

    @property
    def cut(self) -> bool:
        if not self._joining.answered:
            return False
        with self._lock:
            self._cut = self._cut or self._joining.take() is not Outcome.TIMED_OUT
            return self._cut

    @property
    def pending(self) -> Pending:
        """Has something to take when it is cut."""
        return self._joining

    def fileno(self) -> int:
        """Readable when it is cut."""
        with self._lock:
            return self._joining.fileno()

    def close(self) -> None:
        self._joining.cancel()


class Asked:
    """A request of a queue that is under way while the lifeline holds. Given up, it took nothing.

    Args:
        pending: the request.
        deadline: of the monotonic clock.
        life: of the process that is to do something about it, if that is not the queue's own.
        has_come: whether it did so, once the lifeline is cut.
    """

    def __init__(
        self,
        pending: Pending,
        deadline: float,
        life: Lifeline | None = None,
        has_come: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pending = pending
        self._deadline = deadline
        self._life = life
        self._has_come = has_come
        self._cut = False

    async def answer(self) -> Sample | Outcome:
        """
        Raises:
            Closed: that process is gone.
            Timeout: the deadline is over.
        """
        try:
            while (found := await self._answer()) is None:
                pass
            return found
        except BaseException:
            self._pending.cancel()
            raise

    def answer_sync(self) -> Sample | Outcome:
        """The same, without an event loop."""
        try:
            while (found := self._answer_sync()) is None:
                pass
            return found
        except BaseException:
            self._pending.cancel()
            raise

    async def _answer(self) -> Sample | Outcome | None:
        """None: the lifeline was cut meanwhile, and what was asked for has come."""
        left, life = self._left(), self._life
        with (
            Wait(self._pending.fileno(), None if math.isinf(left) else left) as wait,
            nullcontext() if life is None else _Also(life.fileno(), wait),
        ):
            while (found := self._look()) is None and self._life is life:
                self._check(wait.over)
                await wait.woken()
            return found

    def _answer_sync(self) -> Sample | Outcome | None:
        life = self._life
        other = None if life is None else life.pending
        while (found := self._look()) is None and self._life is life:
            left = self._left()
            self._check(left <= 0)
            if not self._pending.wait(min(left, _WAIT_SLICE), other):
                self._poll(min(left, _SIGNAL_SLICE))
        return found

    def _poll(self, left: float) -> None:
        poll = select.poll()
        poll.register(self._pending.fileno(), select.POLLIN)
        if self._life is not None:
            poll.register(self._life.fileno(), select.POLLIN)
        poll.poll(math.ceil(left * 1000))

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
        if self._life is not None and self._has_come():
            self._life, self._cut = None, True
            self._deadline = min(self._deadline, time.monotonic() + _MOMENT)
            return None
        raise _gone()

    def _check(self, over: bool) -> None:
        if over:
            raise _gone() if self._cut else Timeout("no answer in time")


def _gone() -> Closed:
    return Closed("the process that was asked is gone, or has closed its queue")


class _Also(Wait):
    """Wakes who waits for another descriptor."""

    def __init__(self, descriptor: int, other: Wait) -> None:
        super().__init__(descriptor, None)
        self._other = other

    def wake(self) -> None:
        self._other.wake()
