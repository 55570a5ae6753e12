"""Queues between processes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tensorbus import _core
from tensorbus._base.arguments import Access, seconds, topic_name, whole_number
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
from tensorbus._queues.async_calls import AsyncCalls
from tensorbus._queues.ending import wait_for_getters
from tensorbus._queues.handle import limit_of
from tensorbus._queues.pending import checked
from tensorbus._queues.puts import PutCalls
from tensorbus._queues.receives import Receives
from tensorbus._queues.unread import Item
from tensorbus._tensors.library import Library

if TYPE_CHECKING:
    from typing_extensions import Self

    from tensorbus._queues.reopening import Settings

_getpid = os.getpid
_BATCH = 128  # items that put_many() passes to the core in one call


@public
class Queue(PutCalls[T], AsyncCalls[T]):
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
        pin: blocks of main memory of at least 64 KiB that this object gets are pinned for GPUs, so
            that copies to a GPU are fast and asynchronous, see `tensorbus.Subscriber`. A get waits
            for the putter's process before a block is pinned for the first time, for at most 100
            ms; after that the item arrives unpinned. A child that gets the queue keeps the option,
            and starts CUDA at its first get.
        domain: see `tensorbus.participant`.

    Raises:
        TypeError: a name is passed for `maxsize`.
        InvalidArgument: `maxsize` or `max_bytes` is not a whole number; `access` is invalid, or
            does not fit `shared`; `library` is invalid; the name is invalid, or another queue has
            it (the message names the process of that queue); `access` is "private" with `pin`.
        Unsupported: no GPU of this machine supports `pin`.

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
        pin: bool = False,
        domain: str | None = None,
    ) -> None:
        if isinstance(maxsize, str):
            raise TypeError(
                f"maxsize={maxsize!r}: expected a whole number. A name is given as "
                f"name={maxsize!r}; an existing queue is opened with Queue.open({maxsize!r})"
            )
        receives = Receives(access, library, pin, shared=shared)
        receives.require_pinning()  # raises before the queue is made
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
        reopen: bool = False,
        access: Access | None = None,
        library: Library | None = None,
        pin: bool = False,
        domain: str | None = None,
    ) -> Self:
        """Opens the queue with this name or address; waits until it exists.

        With `reopen`, the object survives the end of the queue, for example a restart of the
        queue's server. When the queue was closed, its server has ended, or another process has shut
        the queue down, calls that put or get wait for another queue of this name, and go on there:
        within their `timeout`, after which they raise `queue.Full` or `queue.Empty`. They raise
        `Closed` or `ShutDown`, and iteration ends, only after `close` or `shutdown` of this object.
        The items of a queue end with it. If a server ends before it has replied to a `put`, the
        item is put again into the next queue, and may arrive twice. See docs/queues.md, "When the
        server restarts".

        Args:
            name: the queue's name, or its `address`.
            timeout: seconds to wait for the queue; `None` for no limit.
            reopen: go on in the next queue of this name when this one has ended.
            access, library, pin: for the tensors that this object gets, see `Queue`.
            domain: see `tensorbus.participant`.

        Raises:
            Timeout: the queue was not made in time.
            Closed: there is no queue with this address any more.
            OutOfMemory: see `get`.
            InvalidArgument: `access` is invalid, or does not fit the queue; `library` is invalid;
                an address is given with `reopen`. With `reopen`, `put` and `get` raise it if the
                next queue has another `shared`.
            Unsupported: no GPU of this machine supports `pin`.

        >>> with Queue(name="doc/jobs") as jobs:
        ...     jobs.put(7)
        ...     Queue.open("doc/jobs", timeout=10).get()
        7
        """
        Receives(access, library, pin).require_pinning()  # raises before a wait for the queue
        home = participant(domain)
        core = _core.Queue.open(name, seconds("timeout", timeout), home)
        if reopen and core.address == name:
            raise InvalidArgument(f"reopen: the next queue is found by name, not by address {name}")
        opened = cls.__new__(cls)
        opened._join(core, home.domain, name, Receives(access, library, pin, shared=core.shared))
        if reopen:
            from tensorbus._queues.reopening import Reopening

            opened._reopen(Reopening(core, name, home, opened._receives))
        return opened

    @classmethod
    async def open_async(
        cls,
        name: str,
        *,
        timeout: float | None = None,
        reopen: bool = False,
        access: Access | None = None,
        library: Library | None = None,
        pin: bool = False,
        domain: str | None = None,
    ) -> Self:
        """`open` in an event loop. A thread waits for the queue; it ends soon after a cancellation.

        Args:
            name, timeout, reopen, access, library, pin, domain: see `open`.

        Raises:
            Timeout, Closed, OutOfMemory, InvalidArgument, Unsupported: like `open`.
        """
        from tensorbus._queues.opening import open_in_thread

        return await open_in_thread(
            lambda step: cls.open(
                name,
                timeout=step,
                reopen=reopen,
                access=access,
                library=library,
                pin=pin,
                domain=domain,
            ),
            seconds("timeout", timeout),
        )

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
        limit = None if block and timeout is None else limit_of(block, timeout)
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
        limit = limit_of(True, timeout)
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
        if self._reopening is not None:
            self._reopening.end()
        if is_server:
            self._core.close()

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

    def __reduce__(self) -> tuple[Any, ...]:
        self._is_shared_out = True
        receives, reopening = self._receives, self._reopening
        place = self._address, self._domain, self._name
        how = receives.access, receives.library, receives.pin
        return _unpickled, (*place, *how, None if reopening is None else reopening.settings)


def _unpickled(
    address: str,
    domain: str,
    name: str,
    access: Access | None,
    library: Library | None,
    pin: bool,
    settings: Settings | None,
) -> Queue[Any]:
    """The queue of a pickle. `settings`: those of a queue with `reopen`, which may have ended."""
    if settings is None:
        queue: Queue[Any] = Queue.open(address, access=access, library=library, domain=domain)
        queue._name = name
        if pin:  # without a test of the driver: this process may only put
            queue._receives.pin = True
            queue._receives.apply_to(queue._core)
        return queue
    from tensorbus._queues.reopening import Reopening

    home = participant(domain)
    core = _core.Queue.at(address, home, *settings)  # waits for nothing
    queue = Queue.__new__(Queue)
    queue._join(core, home.domain, name, Receives(access, library, pin, shared=core.shared))
    queue._reopen(Reopening(core, name, home, queue._receives))
    return queue
