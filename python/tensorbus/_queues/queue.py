"""Queues between processes."""

from __future__ import annotations

import os
import queue
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic

from tensorbus import _core
from tensorbus._base.arguments import Access, seconds, topic_name, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.errors import (
    Closed,
    Error,
    Forked,
    InvalidArgument,
)
from tensorbus._base.generics import T
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._base.stats import QueueStats
from tensorbus._core import Outcome
from tensorbus._pickling import pickler
from tensorbus._pickling.pickler import NO_TENSORS
from tensorbus._queues.ending import forks, wait_for_getters
from tensorbus._queues.pending import checked, result_of
from tensorbus._queues.receives import Receives
from tensorbus._queues.unread import Item, Unread
from tensorbus._tensors.library import Library

_getpid = os.getpid
_BATCH = 128  # items that put_many() passes to the core in one call

if TYPE_CHECKING:
    from typing_extensions import Self


@public
class Queue(Closing, Generic[T]):
    """A queue between processes: any process may put and get, and each item goes to one getter.

    An item is any object that can be pickled. Tensors and arrays anywhere in it are sent by
    reference, directly from the putter's process to the getter's process. Tensors outside the
    memory of the bus are copied into it once, in `put`.

    It works like `queue.Queue`, with the same exceptions, and across processes: pass it to a child
    (fork or spawn), send it (it can be pickled), or open it by name. The process that makes it is
    the queue's server: when that process ends, or closes the queue, calls in all other processes
    raise `Closed`. The end of a `with` block shuts the queue down and waits until other processes
    have taken the items; see `close`.

    Args:
        maxsize: how many items may wait; 0 for no limit.
        name: the name for `Queue.open`, unique in the domain.
        redeliver: if a process dies before it calls `task_done` for an item, the item returns to
            the queue. Without it, the item is lost, and counted in `stats`.
        shared: the tensors of items are writable, and writes are visible to every process that has
            the item. For this, `put` moves the memory of an ordinary torch tensor into shared
            memory, like `torch.multiprocessing`.
        max_bytes: how many bytes of tensors and pickles may wait; 0 for no limit. `put` waits for
            room as with `maxsize`.
        access: the access to the tensors that this object gets, see `tensorbus.Subscriber`; `None`
            is "copy-on-write", or "shared" for a queue with `shared=True`. A child that gets the
            queue keeps it.
        library: the library of the tensors that this object gets, see `tensorbus.Subscriber`.
        domain: see `tensorbus.participant`.

    Raises:
        TypeError: a name is passed for `maxsize`.
        InvalidArgument: `maxsize` or `max_bytes` is not a whole number; `access` is invalid, or
            does not fit `shared`; `library` is invalid; the name is invalid, or another queue has
            it (the message names the process of that queue).

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
        max_bytes: int = 0,
        access: Access | None = None,
        library: Library | None = None,
        domain: str | None = None,
    ) -> None:
        if isinstance(maxsize, str):
            raise TypeError(
                f"maxsize={maxsize!r}: expected a whole number. A name is given as "
                f"name={maxsize!r}; an existing queue is opened with Queue.open({maxsize!r})"
            )
        receives = Receives(access, library, shared)
        home = participant(domain)
        self._join(
            _core.Queue(
                maxsize=max(whole_number("maxsize", maxsize, low=-(2**31)), 0),
                redeliver=redeliver,
                shared=shared,
                name="" if name is None else topic_name(name),
                max_bytes=whole_number("max_bytes", max_bytes, low=0),
                participant=home,
            ),
            home.domain,
            name or "",
            receives,
        )

    @classmethod
    def open(
        cls,
        name: str,
        *,
        timeout: float | None = None,
        access: Access | None = None,
        library: Library | None = None,
        domain: str | None = None,
    ) -> Self:
        """Opens the queue with this name or address; waits until it exists.

        Args:
            name: the queue's name, or its `address`.
            timeout: seconds to wait for the queue; `None` for no limit.
            access, library: for the tensors that this object gets, see `Queue`.
            domain: see `tensorbus.participant`.

        Raises:
            Timeout: the queue was not made in time.
            Closed: there is no queue with this address any more.
            OutOfMemory: see `get`.
            InvalidArgument: `access` is invalid, or does not fit the queue; `library` is invalid.

        >>> with Queue(name="doc/jobs") as jobs:
        ...     jobs.put(7)
        ...     Queue.open("doc/jobs", timeout=10).get()
        7
        """
        Receives(access, library)  # raises before a wait for the queue
        home = participant(domain)
        core = _core.Queue.open(name, seconds("timeout", timeout), home)
        opened = cls.__new__(cls)
        opened._join(core, home.domain, name, Receives(access, library, core.shared))
        return opened

    @classmethod
    async def open_async(
        cls,
        name: str,
        *,
        timeout: float | None = None,
        access: Access | None = None,
        library: Library | None = None,
        domain: str | None = None,
    ) -> Self:
        """`open` in an event loop. A thread waits for the queue; it ends soon after a cancellation.

        Args:
            name, timeout, access, library, domain: see `open`.

        Raises:
            Timeout, Closed, OutOfMemory, InvalidArgument: like `open`.
        """
        from tensorbus._queues.opening import open_in_thread

        return await open_in_thread(
            lambda step: cls.open(
                name, timeout=step, access=access, library=library, domain=domain
            ),
            seconds("timeout", timeout),
        )

    def _join(self, core: _core.Queue, domain: str, name: str, receives: Receives) -> None:
        self._core = core
        self._process = os.getpid()
        self._address = core.address
        self._name = "" if name == core.address else name
        self._domain = domain
        self._shared = core.shared
        self._made_with = (core.maxsize, core.redeliver, core.shared, core.max_bytes)
        self._receives = receives
        receives.apply_to(core)
        self._is_shared_out = bool(name)  # other processes may have its name, address or pickle
        self._forks = forks()
        self._unread = Unread(receives.library)
        self._closed = False

    @property
    def _here(self) -> _core.Queue:
        """The core's queue of this process; a forked child makes its own, without any message."""
        if self._closed:
            raise Closed("this process has closed the queue")
        if self._process != _getpid():
            home = participant(self._domain)
            self._core = _core.Queue.at(self._address, home, *self._made_with)
            self._process = os.getpid()
            self._receives.apply_to(self._core)
            self._unread = Unread(self._receives.library)
        return self._core

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

    def put(
        self,
        item: T,
        block: bool = True,
        timeout: float | None = None,
        *,
        stream: Any = None,
    ) -> None:
        """Puts an item in. After the call the item is in the queue, and this process may end.

        Args:
            item: any object that can be pickled.
            block: wait for room in the queue; `False` raises `queue.Full` at once.
            timeout: seconds to wait for room, and for memory while readers hold the whole budget of
                this process. `None`: no limit for room, no wait for memory.
            stream: see `tensorbus.Publisher.publish`.

        Raises:
            queue.Full: the queue had no room, at once or until the end of `timeout`.
            ShutDown: the queue was shut down.
            Closed: the queue was closed, or its server has ended.
            OutOfMemory: a limit of this process or of the queue's server was reached, at once or
                until the end of `timeout`; the message names the limit.
            InvalidArgument: the item alone has more than `max_bytes`.
            Timeout: the queue's server did not reply; the item may be in the queue.
            Exception: pickling the item raised it.
        """
        limit = None if block and timeout is None else _limit(block, timeout)
        outcome = self._here.put_plain(item, limit) if stream is None else None
        if outcome is True:
            return
        if outcome is None:
            outgoing, fields = pickler.dump(item, shared=self._shared, stream=stream)
            outcome = self._here.put(outgoing, fields, limit)
        if outcome is Outcome.TIMED_OUT:
            raise queue.Full
        checked(outcome)

    def put_nowait(self, item: T, *, stream: Any = None) -> None:
        """`put` without waiting for room: raises `queue.Full` at once."""
        self.put(item, block=False, stream=stream)

    def put_many(
        self, items: Iterable[T], timeout: float | None = None, *, stream: Any = None
    ) -> int:
        """Puts several items in, in order: faster than one `put` for each.

        Args:
            items: objects that can be pickled.
            timeout: seconds to wait for room, over all items; `None` for no limit.
            stream: see `tensorbus.Publisher.publish`.

        Returns:
            The number of items that were put: all of them, or only the first ones after a timeout.

        Raises:
            ShutDown, Closed, OutOfMemory, InvalidArgument, Timeout, Exception: `put` raises it for
                one of the items. The items before it are in the queue.

        >>> with Queue(maxsize=4) as numbers:
        ...     numbers.put_many(range(10), timeout=0.01), numbers.get_many(8)
        (4, [0, 1, 2, 3])
        """
        limit = _limit(True, timeout)
        deadline = None if limit is None else time.monotonic() + limit
        put = 0
        waiting: list[bytes] = []
        try:
            for item in items:
                outgoing, fields = pickler.dump(item, shared=self._shared, stream=stream)
                if outgoing is NO_TENSORS or len(outgoing) == 0:
                    waiting.append(fields)
                    if len(waiting) < _BATCH:
                        continue
                batch, waiting = waiting, []
                some = self._put_fields(batch, deadline)
                put += some
                if some < len(batch):
                    return put
                if len(outgoing) != 0:
                    outcome = self._here.put(outgoing, fields, _left(deadline))
                    if outcome is Outcome.TIMED_OUT:
                        return put
                    checked(outcome)
                    put += 1
        except Exception:  # raised by the iterable or by an item: put the items before it
            self._put_fields(waiting, deadline)
            raise
        return put + self._put_fields(waiting, deadline)

    def _put_fields(self, fields: list[bytes], deadline: float | None) -> int:
        if not fields:
            return 0
        core = self._here
        if core.max_bytes == 0:
            count, outcome = core.put_many(fields, _left(deadline))
            if outcome is not Outcome.TIMED_OUT:
                checked(outcome)
            return count
        for count, one in enumerate(fields):  # an item may exceed `max_bytes`, and the next may fit
            outcome = core.put(_core.Outgoing(), one, _left(deadline))
            if outcome is Outcome.TIMED_OUT:
                return count
            checked(outcome)
        return len(fields)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Takes the oldest item, and returns it.

        Args:
            block: wait for an item; `False` raises `queue.Empty` at once.
            timeout: seconds to wait for an item; `None` for no limit.

        Raises:
            queue.Empty: there was no item, at once or until the end of `timeout`.
            ShutDown: the queue was shut down and is empty.
            Closed: the queue was closed, or its server has ended.
            OutOfMemory: a limit of this process was reached, or the queue's server had no room for
                a connection until the end of `timeout` (`None`: for 5 seconds); the message names
                the limit.
            Exception: unpickling the item raised it.
        """
        limit = None if block and timeout is None else _limit(block, timeout)
        taken = self._take(limit)
        item: T = taken[0] if isinstance(taken, tuple) else self._unread.load(taken)
        return item

    def get_many(self, max_count: int, timeout: float | None = None) -> list[T]:
        """Waits for the oldest item, and also takes the items that wait already.

        Args:
            max_count: the maximum number of items.
            timeout: seconds to wait for the first item; `None` for no limit.

        Returns:
            At least one item, the oldest first.

        Raises:
            queue.Empty: there was no item until the end of `timeout`.
            InvalidArgument: `max_count` is less than 1.
            ShutDown, Closed, OutOfMemory: like `get`.
            Exception: unpickling the first item raised it. If unpickling a later item fails, the
                items before it are returned, and the next `get` raises the error.

        >>> with Queue() as numbers:
        ...     for number in range(3):
        ...         numbers.put(number)
        ...     numbers.get_many(2), numbers.get_many(8)
        ([0, 1], [2])
        """
        max_count = whole_number("max_count", max_count, low=1)
        limit = _limit(True, timeout)
        if kept := self._take_kept(max_count):
            return self._unread.load_all([], kept)
        result = self._here.get_many(max_count, limit)
        if isinstance(result, Outcome):
            return [pickler.load(self._sample(result))]  # raises
        values, samples, error = result
        if error is not None:
            self._unread.keep(values, samples)
            raise error
        return self._unread.load_all(values, deque(samples)) if samples else values

    def get_nowait(self) -> T:
        """`get` without waiting for an item: raises `queue.Empty` at once."""
        return self.get(block=False)

    def __iter__(self) -> Iterator[T]:
        """The items, as they arrive, until the queue is shut down and empty, or closed."""
        while True:
            try:
                taken = self._take(None)
            except Closed:
                return
            item = taken[0] if isinstance(taken, tuple) else self._unread.load(taken)
            del taken  # hold no item while waiting for the next
            yield item
            del item

    async def put_async(self, item: T, *, stream: Any = None) -> None:
        """`put` in an event loop; waits for room without blocking it.

        After a cancellation the item may be in the queue. It raises like `put`, but never
        `queue.Full`.
        """
        outgoing, fields = pickler.dump(item, shared=self._shared, stream=stream)
        await result_of(self._here.start_put(outgoing, fields))

    async def get_async(self) -> T:
        """`get` in an event loop. A cancelled call has taken no item. It raises like `get`."""
        item: T = self._unread.load(await self._take_async())
        return item

    async def join_async(self) -> None:
        """`join` in an event loop."""
        await result_of(self._here.start_join())

    async def __aiter__(self) -> AsyncIterator[T]:
        """The items, as they arrive, until the queue is shut down and empty, or closed."""
        while True:
            try:
                taken = await self._take_async()
            except Closed:
                return
            item = self._unread.load(taken)
            del taken
            yield item
            del item

    def qsize(self) -> int:
        """How many items wait, including items that an interrupted `get` of this object took."""
        waiting = self.stats.items  # first: in a forked child, this clears `_unread`
        return waiting + len(self._unread.items)

    def empty(self) -> bool:
        """Whether no item waits now; another process may put an item at any moment."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Whether there is no room now; another process may take an item at any moment."""
        stats = self.stats
        return 0 < self.maxsize <= stats.items or 0 < self.max_bytes <= stats.bytes

    def task_done(self) -> None:
        """Marks the oldest unfinished item that this process got as done.

        Raises:
            ValueError: it was called more often than items were got.
            Closed: the queue was closed, or its server has ended.
        """
        try:
            self._here.task_done()
        except InvalidArgument as error:
            raise ValueError(str(error)) from None

    def join(self, timeout: float | None = None) -> bool:
        """Waits until `task_done` was called for every item that was put.

        Returns:
            False after `timeout` seconds.

        Raises:
            Closed: the queue was closed, or its server has ended.
        """
        limit = seconds("timeout", timeout)
        if limit == 0:
            return self.stats.unfinished == 0
        outcome = self._here.join(limit)
        if outcome is Outcome.TIMED_OUT:
            return False
        checked(outcome)
        return True

    def shutdown(self, immediate: bool = False) -> None:
        """Shuts the queue down in all processes, like `queue.Queue.shutdown` of Python 3.13.

        From now on `put` raises `ShutDown`; `get` raises it when no item is left, and `for item in
        queue` then ends. Waiting calls in all processes are woken. With `redeliver`, `get` raises
        `ShutDown` only when the items of all other processes are done.

        Args:
            immediate: drop the waiting items, and mark them as done.

        Raises:
            Closed: the queue was closed, or its server has ended.
            Timeout: the queue's server did not reply.

        >>> with Queue() as jobs:
        ...     jobs.put("last")
        ...     jobs.shutdown()
        ...     list(jobs)
        ['last']
        """
        self._here.shutdown(immediate)

    @property
    def stats(self) -> QueueStats:
        """Counters of the items that wait, are unfinished, or were lost with their processes.

        Raises:
            Closed: the queue was closed, or its server has ended.
        """
        return QueueStats(**self._here.stats)

    def close(self, timeout: float | None = 0) -> None:
        """Closes the queue in this process. In the queue's server, closes it in all processes.

        The server then drops the items that are still in the queue, and the logger
        `tensorbus.queue` warns of their number.

        The end of a `with` block first shuts the queue down, and waits while other processes take
        items. It stops waiting when no item was taken for 60 seconds, or for 5 seconds if no other
        process that has called `get` is alive. It does not wait after an exception, for a queue
        that no other process can have opened, or if only this process has got items.

        Args:
            timeout: in the queue's server, seconds to wait, after a shutdown, while other processes
                take the items; `None` for no limit.
        """
        limit = seconds("timeout", timeout)
        if self._is_server() and limit != 0:
            try:
                with suppress(Closed):  # closed already
                    self._core.shutdown(False)
                    self._core.drain(limit)
            finally:
                self._end()
        else:
            self._end()

    def __exit__(self, kind: object = None, *_: object) -> None:
        with suppress(Forked):  # a forked child that leaves its parent's block closes nothing
            try:
                if kind is None and self._is_server():
                    with suppress(Closed):  # closed already
                        wait_for_getters(self._core, self._is_shared_out, self._forks)
            finally:
                self._end()

    def _is_server(self) -> bool:
        return not self._closed and self._process == os.getpid() and self._core.made_here

    def _end(self) -> None:
        """`close` without waiting."""
        if self._is_server():
            dropped = 0
            with suppress(Error):
                dropped = self._core.stats["items"]
            if dropped:
                import logging

                logging.getLogger("tensorbus.queue").warning(
                    "%r was closed with %d items in it, which are dropped", self, dropped
                )
        self._discard()

    def _discard(self) -> None:
        """`close` without a warning about dropped items, for the package's own queues."""
        is_server = self._is_server()
        self._closed = True
        self._unread.items.clear()
        if is_server:
            self._core.close()

    def _take_kept(self, max_count: int) -> deque[Item]:
        return deque() if self._closed else self._unread.take(max_count)

    def _take_sample(self, timeout: float | None) -> _core.Sample:
        """Takes an item without looking at kept items: for queues that only this method reads."""
        return self._sample(self._here.get(timeout))

    def _take(self, timeout: float | None) -> Item:
        if self._unread.items and (kept := self._take_kept(1)):
            return kept[0]
        result = self._here.get_item(timeout)
        if not isinstance(result, tuple):
            return self._sample(result)
        if len(result) == 2:
            item, error = result
            self._unread.keep((), [item])
            raise error
        return result

    async def _take_async(self) -> Item:
        if kept := self._take_kept(1):
            return kept[0]
        return self._sample(await result_of(self._here.start_get()))

    def _sample(self, result: _core.Sample | Outcome) -> _core.Sample:
        if not isinstance(result, Outcome):
            return result
        if result is Outcome.TIMED_OUT:
            raise queue.Empty
        raise Error(f"unexpected outcome of a get: {checked(result)}")

    def __reduce__(self) -> tuple[Any, ...]:
        self._is_shared_out = True
        receives = self._receives
        place = self._address, self._domain, self._name
        return _reopen, (*place, receives.access, receives.library)

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
        if self._process != os.getpid() or not self._core.made_here:
            return "open"
        try:
            return f"open items={self._core.stats['items']}"
        except Error:
            return "closed"


def _reopen(
    address: str, domain: str, name: str, access: Access | None, library: Library | None
) -> Queue[Any]:
    queue: Queue[Any] = Queue.open(address, access=access, library=library, domain=domain)
    queue._name = name
    return queue


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)


def _limit(block: bool, timeout: float | None) -> float | None:
    if not block:
        return 0.0
    limit = seconds("timeout", timeout)
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return limit
