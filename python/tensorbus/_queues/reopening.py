"""Calls that go on in the next queue of a name when the queue's server has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tensorbus import _core
from tensorbus._aio.shared_future import wait_for_shared
from tensorbus._base.errors import Closed, InvalidArgument, Timeout
from tensorbus._core import Outcome, Participant
from tensorbus._queues.opening import (
    called_in_thread,
    open_in_steps,
    run_in_thread,
)
from tensorbus._queues.pending import outcome_of
from tensorbus._queues.receives import Receives

R = TypeVar("R")

# maxsize, redeliver, shared and max_bytes of a queue
Settings = tuple[int, bool, bool, int]


class Reopening:
    """The queues of one name, one after the other: it has the calls of `_core.Queue`.

    It is *open*: calls go to the present queue, which may have ended. A call that finds that the
    present queue was closed or shut down waits for another queue of this name, which becomes the
    present one for all threads and tasks. Or it is *over*, by `shutdown` or `end`: the present
    queue does not change any more. (Only `shutdown` itself goes on to a queue that exists already.)

    Invariants:
        Only an ended queue is replaced, by a queue that was made later, with the same `shared`.
        `task_done` marks the items of earlier queues first: they are older.

    Any thread may use it. A forked child makes its own, see `in_a_child`.
    """

    made_here = False  # for `Queue`: the server is another object

    def __init__(
        self, core: _core.Queue, name: str, participant: Participant, receives: Receives
    ) -> None:
        """Begins with the queue `core`, whose access to tensors is set."""
        self._core = core
        self._name = name
        self._participant = participant
        self._receives = receives
        self._over = False
        self.waits = False  # the last call found no queue
        self._lock = threading.Lock()
        # Addresses of ended queues of which this process may have unfinished items, oldest first.
        self._earlier: list[str] = []
        self._tasks = 0  # tasks of event loops that wait for the next queue
        self._search: Future[Outcome] | None = None  # of the thread that waits for these tasks
        # Copies: a forked child cannot ask the queue of its parent.
        self.address: str = core.address
        self.settings: Settings = (core.maxsize, core.redeliver, core.shared, core.max_bytes)

    def in_a_child(self, participant: Participant) -> Reopening:
        """The same for a forked child, which has no items of its parent."""
        core = _core.Queue.at(self.address, participant, *self.settings)
        self._receives.apply_to(core)
        return Reopening(core, self._name, participant, self._receives)

    @property
    def maxsize(self) -> int:
        return self.settings[0]

    @property
    def redeliver(self) -> bool:
        return self.settings[1]

    @property
    def shared(self) -> bool:
        return self.settings[2]

    @property
    def max_bytes(self) -> int:
        return self.settings[3]

    @property
    def stats(self) -> dict[str, int]:
        return self._at_once(lambda core: core.stats)

    def put_plain(self, item: object, timeout: float | None) -> Any:
        return self.call(lambda core, left: core.put_plain(item, left), timeout)

    def get(self, timeout: float | None) -> _core.Sample | Outcome:
        return self.call(lambda core, left: core.get(left), timeout)

    def get_item(self, timeout: float | None) -> Any:
        return self.call(lambda core, left: core.get_item(left), timeout)

    def get_many(self, max_count: int, timeout: float | None) -> Any:
        return self.call(lambda core, left: core.get_many(max_count, left), timeout)

    def call(
        self, call: Callable[[_core.Queue, float | None], R], timeout: float | None
    ) -> R | Outcome:
        """Calls the present queue, and the next ones, until the result is not the queue's end.

        Args:
            call: a call of a queue with a timeout; it returns the `Outcome` if it did nothing.
            timeout: seconds for all calls and for the waits between them.

        Raises:
            InvalidArgument: the next queue has another `shared`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        left = timeout
        while True:
            core = self._core
            result = call(core, left)
            if result is not Outcome.CLOSED and result is not Outcome.SHUT_DOWN:
                return result
            left = _left(deadline)
            following = self._follow(core, result, left)
            if following is not Outcome.DONE:
                return following
            left = _left(deadline)

    async def outcome_of(
        self, start: Callable[[_core.Queue], _core.Pending]
    ) -> _core.Sample | Outcome:
        """`call` in an event loop, for a request that `start` makes."""
        while True:
            core = self._core
            result = await outcome_of(start(core))
            if result is not Outcome.CLOSED and result is not Outcome.SHUT_DOWN:
                return result
            following = await self._follow_async(core, result)
            if following is not Outcome.DONE and following is not Outcome.TIMED_OUT:
                return following

    def task_done(self) -> None:
        for address in tuple(self._earlier):
            try:
                _core.Queue.at(address, self._participant).task_done()
                return
            except Closed:  # the item has ended with its queue
                return
            except InvalidArgument:  # no unfinished item of this queue is left
                with self._lock:
                    self._earlier = [one for one in self._earlier if one != address]
        with suppress(Closed):
            self._core.task_done()

    def join(self, timeout: float | None) -> Outcome:
        """Joins the present queue. CLOSED says that its items are gone: it joins no other queue.

        The call after that joins the next queue, if there is one.
        """
        core = self._core
        outcome = core.join(timeout)
        if outcome is Outcome.CLOSED:
            self._follow(core, outcome, 0.0)
        return outcome

    async def join_async(self) -> _core.Sample | Outcome:
        """`join` in an event loop."""
        core = self._core
        outcome = await outcome_of(core.start_join())
        if outcome is Outcome.CLOSED:
            await called_in_thread(partial(self._follow, core, outcome, 0.0))
        return outcome

    def shutdown(self, immediate: bool) -> tuple[int, int, bool]:
        self._over = True
        return self._at_once(lambda core: core.shutdown(immediate), unless_over=False)

    def end(self) -> None:
        """From now on no call goes on in another queue; waits for one end soon."""
        self._over = True

    def _at_once(self, call: Callable[[_core.Queue], R], *, unless_over: bool = True) -> R:
        """Calls the present queue; if it has ended, the next one, if that exists already."""
        core = self._core
        try:
            return call(core)
        except Closed:
            if core is self._core:
                with suppress(Timeout):
                    self._replace(core, self._open_next("", 0.0), unless_over=unless_over)
            if core is self._core:
                raise
        return call(self._core)

    def _follow(
        self,
        ended: _core.Queue,
        end: Outcome,
        timeout: float | None,
        given_up: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """Waits until the present queue is another one than `ended`.

        Returns:
            DONE; TIMED_OUT; or, if this object is over, how the queue has ended.
        """
        # A queue that was shut down still has its name; one that is closed might be open again.
        address = ended.address if end is Outcome.SHUT_DOWN else ""

        def is_in_vain() -> bool:
            return self._over or self._core is not ended or given_up()

        while self._core is ended:
            if self._over:
                return end
            self.waits = True
            try:
                self._replace(
                    ended,
                    open_in_steps(partial(self._open_next, address), timeout, is_in_vain),
                )
            except Timeout:
                if self._core is ended and not self._over:
                    return Outcome.TIMED_OUT
        return Outcome.DONE

    def _open_next(self, ended: str, timeout: float) -> _core.Queue:
        return _core.Queue.open(self._name, timeout, self._participant, ended)

    def _replace(self, ended: _core.Queue, core: _core.Queue, *, unless_over: bool = True) -> None:
        """Makes `core` the present queue, unless another thread was faster."""
        if core.shared != self.shared:
            raise InvalidArgument(
                f"the next queue {self._name!r} has shared={core.shared}, and this object was "
                f"opened for shared={self.shared}: open it again"
            )
        self._receives.apply_to(core)
        with self._lock:
            if self._core is not ended or (unless_over and self._over):
                return
            if core.address != self.address:
                self._earlier.append(self.address)
            self.address = core.address
            self.settings = (core.maxsize, core.redeliver, core.shared, core.max_bytes)
            self._core = core
            self.waits = False

    async def _follow_async(self, ended: _core.Queue, end: Outcome) -> Outcome:
        """`_follow` by one thread for all tasks. TIMED_OUT: try again."""
        with self._lock:
            self._tasks += 1
            search = self._search
            if search is None:
                search = self._search = Future()
                run_in_thread(search, partial(self._follow_for_tasks, ended, end))
        try:
            await wait_for_shared(search)
            return search.result()
        finally:
            with self._lock:
                self._tasks -= 1

    def _follow_for_tasks(self, ended: _core.Queue, end: Outcome) -> Outcome:
        try:
            return self._follow(ended, end, None, lambda: self._tasks == 0)
        finally:
            with self._lock:
                self._search = None


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
