"""Queues between processes."""

from __future__ import annotations

import os
import queue
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic

from tensorbus import _core
from tensorbus._base.arguments import seconds, topic_name, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, Error, InvalidArgument
from tensorbus._base.generics import T
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._base.stats import QueueStats
from tensorbus._core import Outcome
from tensorbus._pickling import pickler
from tensorbus._queues.pending import taken

if TYPE_CHECKING:
    from typing_extensions import Self


@public
class Queue(Closing, Generic[T]):
    """Items from any process of the domain to any other, each to exactly one of them.

    An item is any object that can be pickled; tensors and arrays anywhere in it travel by
    reference, straight from the process that put them to the one that gets them. Those that do not
    lie in memory of the bus are copied into it, once, in `put`.

    It works like `queue.Queue`, with the same exceptions, and across processes: hand it to a child
    (fork or spawn), send it (it pickles), or open it by name. It lives in the process that made it:
    when that ends or closes it, all others get `Closed`.

    Args:
        maxsize: how many items may wait; 0 for no limit.
        name: by which others `Queue.open` it.
        redeliver: a process that dies with an item, for which it has not called `task_done`, gives
            it back. Otherwise such an item is lost, and counted in `stats`.
        shared: tensors of items can be written to, and all who have them see it. `put` moves an
            ordinary torch tensor's memory to where that works, as `torch.multiprocessing` does.
        domain: see `tensorbus.participant`.

    Raises:
        TypeError: a name for `maxsize`.
        InvalidArgument: a `maxsize` that is no whole number, or a name that is none.

    >>> import numpy as np
    >>> with Queue(maxsize=8) as frames:
    ...     frames.put({"image": np.zeros((2, 3)), "id": 7})
    ...     frames.get()["id"], frames.qsize()
    (7, 0)
    """

    def __init__(
        self,
        maxsize: int = 0,
        *,
        name: str | None = None,
        redeliver: bool = False,
        shared: bool = False,
        domain: str | None = None,
    ) -> None:
        if isinstance(maxsize, str):
            raise TypeError(
                f"maxsize={maxsize!r}: expected a whole number. A name is given as "
                f"name={maxsize!r}; an existing queue is opened with Queue.open({maxsize!r})"
            )
        home = participant(domain)
        self._join(
            _core.Queue(
                maxsize=max(whole_number("maxsize", maxsize, least=-(2**31)), 0),
                redeliver=redeliver,
                shared=shared,
                name="" if name is None else topic_name(name),
                participant=home,
            ),
            home.domain,
            name or "",
        )

    @classmethod
    def open(cls, name: str, *, timeout: float | None = None, domain: str | None = None) -> Self:
        """The queue of this name, or address, which may be made later.

        Args:
            name: what it was made with, or its `address`.
            timeout: seconds to wait for it; `None` for as long as it takes.
            domain: see `tensorbus.participant`.

        Raises:
            Timeout: nobody made one in time.
            Closed: the address is of a queue that is no more.
        """
        home = participant(domain)
        opened = cls.__new__(cls)
        opened._join(_core.Queue.open(name, seconds("timeout", timeout), home), home.domain, name)
        return opened

    def _join(self, core: _core.Queue, domain: str, name: str) -> None:
        self._core = core
        self._process = os.getpid()
        self._address = core.address
        self._name = "" if name == core.address else name
        self._domain = domain
        self._shared = core.shared
        self._closed = False

    @property
    def _here(self) -> _core.Queue:
        """The core's queue, of this process: a forked child opens its own."""
        if self._closed:
            raise Closed("this process has closed the queue")
        if self._process != os.getpid():
            home = participant(self._domain)
            self._core = _core.Queue.open(self._address, None, home)
            self._process = os.getpid()
        return self._core

    @property
    def address(self) -> str:
        """A line of text by which `open` finds it."""
        return self._address

    @property
    def maxsize(self) -> int:
        """How many items may wait; 0 for no limit."""
        return self._core.maxsize

    def put(
        self,
        item: T,
        block: bool = True,
        timeout: float | None = None,
        *,
        stream: Any = None,
    ) -> None:
        """Puts an item in; when it returns, the item is in the queue and this process may end.

        Args:
            item: any object that can be pickled.
            block, timeout: as the standard library's queues have them.
            stream: see `tensorbus.Publisher.publish`.

        Raises:
            queue.Full: there was no room, at once or in time.
            Closed: the queue, or the process that has it, is gone.
            OutOfMemory: a limit was reached; the message names it.
            Timeout: the process that has the queue does not say whether the item is in it.
            Exception: whatever pickling the item raises.
        """
        outgoing, fields = pickler.dump(item, shared=self._shared, stream=stream)
        outcome = self._here.put(outgoing, fields, _wait(block, timeout))
        if outcome is Outcome.TIMED_OUT:
            raise queue.Full
        self._check(outcome)

    def put_nowait(self, item: T, *, stream: Any = None) -> None:
        """`put` that does not wait for room."""
        self.put(item, block=False, stream=stream)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Takes the oldest item.

        Raises:
            queue.Empty: there was none, at once or in time.
            Closed: the queue, or the process that has it, is gone.
            Exception: whatever unpickling the item raises.
        """
        item: T = pickler.load(self._found(_wait(block, timeout)))
        return item

    def get_nowait(self) -> T:
        """`get` that does not wait for an item."""
        return self.get(block=False)

    def __iter__(self) -> Iterator[T]:
        """The items as they come, until the queue is closed."""
        while True:
            try:
                found = self._found(None)
            except Closed:
                return
            item = pickler.load(found)
            del found  # nothing is kept while we wait for the next
            yield item
            del item

    async def put_async(self, item: T, *, stream: Any = None) -> None:
        """`put` in an event loop. Cancelled, it may have put the item in, or not."""
        outgoing, fields = pickler.dump(item, shared=self._shared, stream=stream)
        await taken(self._here.start_put(outgoing, fields))

    async def get_async(self) -> T:
        """`get` in an event loop. Cancelled, it has taken none."""
        item: T = pickler.load(await self._found_async())
        return item

    async def join_async(self) -> None:
        """`join` in an event loop."""
        await taken(self._here.start_join())

    async def __aiter__(self) -> AsyncIterator[T]:
        """The items as they come, until the queue is closed."""
        while True:
            try:
                found = await self._found_async()
            except Closed:
                return
            item = pickler.load(found)
            del found
            yield item
            del item

    def qsize(self) -> int:
        """How many items wait."""
        return self.stats.items

    def empty(self) -> bool:
        """Does no item wait? Others may put one at any moment."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Is there no room? Others may make some at any moment."""
        return 0 < self.maxsize <= self.qsize()

    def task_done(self) -> None:
        """Of the oldest item that this process got: it is done with.

        Raises:
            ValueError: there were fewer items.
        """
        try:
            self._here.task_done()
        except InvalidArgument as error:
            raise ValueError(str(error)) from None

    def join(self, timeout: float | None = None) -> bool:
        """Waits until `task_done` was called for every item that was put; False after `timeout`."""
        limit = seconds("timeout", timeout)
        if limit == 0:
            return self.stats.unfinished == 0
        outcome = self._here.join(limit)
        if outcome is Outcome.TIMED_OUT:
            return False
        self._check(outcome)
        return True

    @property
    def stats(self) -> QueueStats:
        """How many items wait, are unfinished, and were lost with the processes that had them."""
        return QueueStats(**self._here.stats)

    def close(self) -> None:
        """Lets go of it here; in the process that made it, ends it for everybody."""
        if self._closed:
            return
        self._closed = True
        if self._process == os.getpid() and self._core.made_here:
            self._core.close()

    def _found(self, timeout: float | None) -> _core.Sample:
        return self._sample(self._here.get(timeout))

    async def _found_async(self) -> _core.Sample:
        return self._sample(await taken(self._here.start_get()))

    def _sample(self, found: _core.Sample | Outcome) -> _core.Sample:
        if not isinstance(found, Outcome):
            return found
        if found is Outcome.TIMED_OUT:
            raise queue.Empty
        self._check(found)
        raise Error(f"a queue answered {found}")

    @staticmethod
    def _check(outcome: Outcome) -> None:
        if outcome is Outcome.CLOSED:
            raise Closed("the queue is closed, or the process that has it is gone")

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._address, self._domain, self._name)

    def __repr__(self) -> str:
        named = repr(self._name) if self._name else self._address
        return f"<tensorbus.Queue {named} {self._state()} maxsize={self._core.maxsize}>"

    def _repr_html_(self) -> str:
        """For notebooks: name, state and fill."""
        from tensorbus._base.html import table

        state, _, items = self._state().partition(" items=")
        rows = {"state": state, "address": self._address}
        if items:
            rows["items"] = f"{items} of {self.maxsize}" if self.maxsize else items
        return table(f"Queue {self._name}", rows)

    def _state(self) -> str:
        """How many items wait, where that takes asking no other process, which may be stopped."""
        if self._closed:
            return "closed"
        if self._process != os.getpid() or not self._core.made_here:
            return "open"
        try:
            return f"open items={self._core.stats['items']}"
        except Error:
            return "closed"


def _reopen(address: str, domain: str, name: str = "") -> Queue[Any]:
    queue: Queue[Any] = Queue.open(address, domain=domain)
    queue._name = name
    return queue


def _wait(block: bool, timeout: float | None) -> float | None:
    if not block:
        return 0.0
    limit = seconds("timeout", timeout)
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return limit
