"""Waiting for the reply to a request, and for the end of the other process at the same time."""

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

# Seconds of one poll. A signal that another thread receives does not interrupt a poll: Python
# handles it after the poll.
_SIGNAL_SLICE = 0.1
_WAIT_SLICE = 3600.0
# Seconds to take an answer whose sender has ended: its tensors may be in memory of another process,
# which must lend them.
_TAKE_TIMEOUT = 1.0


class Lifeline:
    """Detects that a queue was closed, or that its server has ended.

    It is a pending `join` of the queue. `task_done` is never called for the queue's items, so that
    only a close or the server's end can end the `join`. All calls of the queue share it, in any
    thread.
    """

    def __init__(self, joining: Pending) -> None:
        self._joining = joining
        self._cut = False
        self._lock = threading.Lock()  # one thread at a time may use the request

    @property
    def cut(self) -> bool:
        if not self._joining.answered:
            return False
        with self._lock:
            self._cut = self._cut or self._joining.take() is not Outcome.TIMED_OUT
            return self._cut

    @property
    def pending(self) -> Pending:
        """The pending `join`; it gets its result when the lifeline is cut."""
        return self._joining

    def fileno(self) -> int:
        """A descriptor that is readable once the lifeline is cut."""
        with self._lock:
            return self._joining.fileno()

    def close(self) -> None:
        self._joining.cancel()


class WatchedRequest:
    """A pending request to a queue, and a lifeline. A cancelled request has taken no item.

    Args:
        pending: the request.
        deadline: time of the monotonic clock.
        life: the lifeline of the process that must reply, if it is not the queue's server.
        has_come: returns whether the reply of that process is in the queue; called once the
            lifeline is cut.
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
        """The result of the request.

        Raises:
            Closed: the other process has ended, or has closed its queue.
            Timeout: the deadline has passed.
        """
        try:
            while (result := await self._answer()) is None:
                pass
            return result
        except BaseException:
            self._pending.cancel()
            raise

    def answer_sync(self) -> Sample | Outcome:
        """`answer` without an event loop."""
        try:
            while (result := self._answer_sync()) is None:
                pass
            return result
        except BaseException:
            self._pending.cancel()
            raise

    async def _answer(self) -> Sample | Outcome | None:
        """The result; None if the answer arrived before the lifeline was cut: call it again."""
        left, life = self._left(), self._life
        with (
            Wait(self._pending.fileno(), None if math.isinf(left) else left) as wait,
            nullcontext() if life is None else _WakesOther(life.fileno(), wait),
        ):
            while (result := self._try_take()) is None and self._life is life:
                self._check(wait.over)
                await wait.woken()
            return result

    def _answer_sync(self) -> Sample | Outcome | None:
        life = self._life
        other = None if life is None else life.pending
        while (result := self._try_take()) is None and self._life is life:
            left = self._left()
            self._check(left <= 0)
            if not self._pending.wait(min(left, _WAIT_SLICE), other):
                self._poll(min(left, _SIGNAL_SLICE))
        return result

    def _poll(self, left: float) -> None:
        poll = select.poll()
        poll.register(self._pending.fileno(), select.POLLIN)
        if self._life is not None:
            poll.register(self._life.fileno(), select.POLLIN)
        poll.poll(math.ceil(left * 1000))

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0)

    def _try_take(self) -> Sample | Outcome | None:
        """Takes the answer; tries again if the process has ended, as it may have replied before."""
        for _ in range(2):
            result = self._pending.take()
            if result is Outcome.CLOSED:
                break
            if result is not Outcome.TIMED_OUT:
                return result
            if self._life is None or not self._life.cut:
                return None
        if self._life is not None and self._has_come():
            self._life, self._cut = None, True
            self._deadline = min(self._deadline, time.monotonic() + _TAKE_TIMEOUT)
            return None
        raise _gone()

    def _check(self, over: bool) -> None:
        if over:
            raise _gone() if self._cut else Timeout("no answer in time")


def _gone() -> Closed:
    return Closed("the process of the service is gone, or has closed its queue")


class _WakesOther(Wait):
    """A wait whose descriptor wakes the task of another wait."""

    def __init__(self, descriptor: int, other: Wait) -> None:
        super().__init__(descriptor, None)
        self._other = other

    def wake(self) -> None:
        self._other.wake()
