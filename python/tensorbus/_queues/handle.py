"""What an object of a queue is: the core's queue of this process, its name and its settings."""

from __future__ import annotations

import os
import queue
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from tensorbus import _core
from tensorbus._base.arguments import seconds
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, Error
from tensorbus._base.participant import participant
from tensorbus._core import Outcome
from tensorbus._queues.ending import forks
from tensorbus._queues.pending import checked
from tensorbus._queues.receives import Receives
from tensorbus._queues.unread import Item, Unread

if TYPE_CHECKING:
    from tensorbus._queues.reopening import R, Reopening, Settings

_getpid = os.getpid


class Handle(Closing):
    """Base of `Queue` and of its calls."""

    def _join(self, core: _core.Queue, domain: str, name: str, receives: Receives) -> None:
        self._core = core
        self._reopening: Reopening | None = None
        self._process = os.getpid()
        self._first_address = core.address
        self._name = "" if name == core.address else name
        self._domain = domain
        self._shared = core.shared
        self._made_with: Settings = (core.maxsize, core.redeliver, core.shared, core.max_bytes)
        self._receives = receives
        receives.apply_to(core)
        self._is_shared_out = bool(name)  # other processes may have its name, address or pickle
        self._forks = forks()
        self._unread = Unread(receives.library)
        self._closed = False

    def _pin(self) -> None:
        """From now on pins items, like the option `pin`. Other threads must not get items now.

        Raises:
            Unsupported, InvalidArgument: see `Receives.require_pinning`.
        """
        self._receives.pin = True
        self._receives.require_pinning()
        self._here.pin_later()

    def _reopen(self, reopening: Reopening) -> None:
        self._reopening = reopening
        self._core = cast("_core.Queue", reopening)  # it has the calls that this class uses

    @property
    def _here(self) -> _core.Queue:
        """The core's queue of this process; a forked child makes its own, without any message."""
        if self._closed:
            raise Closed("this process has closed the queue")
        if self._process != _getpid():
            home = participant(self._domain)
            if self._reopening is not None:
                self._reopen(self._reopening.in_a_child(home))
            else:
                self._core = _core.Queue.at(self._first_address, home, *self._made_with)
                self._receives.apply_to(self._core)
            self._process = os.getpid()
            self._unread = Unread(self._receives.library)
        return self._core

    @property
    def _address(self) -> str:
        return self._first_address if self._reopening is None else self._reopening.address

    @property
    def address(self) -> str:
        """A line of text that `open` accepts in place of a name."""
        self._is_shared_out = True
        return self._address

    @property
    def maxsize(self) -> int:
        """How many items may wait; 0 for no limit."""
        return self._core.maxsize

    @property
    def max_bytes(self) -> int:
        """How many bytes of tensors and pickles may wait; 0 for no limit."""
        return self._core.max_bytes

    def _call(
        self, call: Callable[[_core.Queue, float | None], R], limit: float | None
    ) -> R | Outcome:
        """Calls the core; with `reopen`, that of one queue after the other."""
        core = self._here
        reopening = self._reopening
        return call(core, limit) if reopening is None else reopening.call(call, limit)

    def _take_kept(self, max_count: int) -> deque[Item]:
        return deque() if self._closed else self._unread.take(max_count)

    def _sample(self, result: _core.Sample | Outcome) -> _core.Sample:
        if not isinstance(result, Outcome):
            return result
        if result is Outcome.TIMED_OUT:
            raise queue.Empty(self._timeout_text("no item"))
        raise Error(f"unexpected outcome of a get: {checked(result)}")

    def _timeout_text(self, why: str) -> str:
        """The text of an error after a timeout."""
        if self._reopening is not None and self._reopening.waits:
            return f"there is no queue {self._name!r} now"
        return f"queue {self._name or self._address}: {why}"

    def _is_server(self) -> bool:
        return not self._closed and self._process == os.getpid() and self._core.made_here

    def __repr__(self) -> str:
        named = repr(self._name) if self._name else self._address
        return f"<tensorbus.Queue {named} {self._state()} maxsize={self._core.maxsize}>"

    def _repr_html_(self) -> str:
        """For notebooks: name, state and counters."""
        from tensorbus._base.html import table

        state, _, items = self._state().partition(" items=")
        rows = {"state": state, "address": self._address}
        if items:
            rows["items"] = f"{items} of {self.maxsize}" if self.maxsize else items
        return table(f"Queue {self._name}", rows)

    def _state(self) -> str:
        """The state; with the number of items if it needs no request to another process."""
        if self._closed:
            return "closed"
        if self._reopening is not None and self._reopening.waits:
            return "waiting"
        if self._process != os.getpid() or not self._core.made_here:
            return "open"
        try:
            return f"open items={self._core.stats['items']}"
        except Error:
            return "closed"


def left_of(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)


def limit_of(block: bool, timeout: float | None) -> float | None:
    if not block:
        return 0.0
    limit = seconds("timeout", timeout)
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return limit
