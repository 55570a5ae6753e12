"""Queues between processes."""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic

from tensorbus import _core
from tensorbus._base.arguments import Access, access_named, seconds, topic_name, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.errors import (
    Closed,
    Error,
    Forked,
    InvalidArgument,
    OutOfMemory,
    Timeout,
)
from tensorbus._base.generics import T
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._base.stats import QueueStats
from tensorbus._core import Outcome
from tensorbus._pickling import pickler
from tensorbus._pickling.pickler import NO_TENSORS
from tensorbus._queues.ending import forks, wait_for_takers
from tensorbus._queues.pending import checked, taken

# What was taken from a queue: an everyday value, in a tuple, or the sample of another item.
_Unread = tuple[Any] | _core.Sample

_getpid = os.getpid
_BATCH = 128  # items that put_many() hands to the core at once
_LOOK = 0.5  # seconds, after which open_async() notices that it was cancelled
_PATIENCE = 5.0  # seconds for room for a connection, without a time-out; as in the core

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
    when that ends or closes it, all others get `Closed`. The end of a `with` block shuts it down
    and waits for other processes to take what waits; see `close`.

    Args:
        maxsize: how many items may wait; 0 for no limit.
        name: by which others `Queue.open` it. No other queue of the domain has it.
        redeliver: a process that dies with an item, for which it has not called `task_done`, gives
            it back. Otherwise such an item is lost, and counted in `stats`.
        shared: tensors of items can be written to, and all who have them see it. `put` moves an
            ordinary torch tensor's memory to where that works, as `torch.multiprocessing` does.
        max_bytes: how many bytes of tensors and pickles may wait; 0 for no limit. A `put` waits for
            room as with `maxsize`.
        domain: see `tensorbus.participant`.

    Raises:
        TypeError: a name for `maxsize`.
        InvalidArgument: a `maxsize` or `max_bytes` that is no whole number, a name that is none, or
            one that a queue has; the message names its process.

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
                max_bytes=whole_number("max_bytes", max_bytes, least=0),
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
            OutOfMemory: see `get`.
        """
        home = participant(domain)
        opened = cls.__new__(cls)
        opened._join(_core.Queue.open(name, seconds("timeout", timeout), home), home.domain, name)
        return opened

    @classmethod
    async def open_async(
        cls, name: str, *, timeout: float | None = None, domain: str | None = None
    ) -> Self:
        """`open` in an event loop. A thread waits for the queue; it ends soon after a cancellation.

        Args:
            name, timeout, domain: as for `open`.

        Raises:
            Timeout, Closed: as `open`.
        """
        import asyncio
        from concurrent.futures import Future, InvalidStateError

        found: Future[Any] = Future()
        limit = seconds("timeout", timeout)
        began = time.monotonic()
        deadline = math.inf if limit is None else began + limit
        for_room = began + _PATIENCE if limit is None else deadline

        def look() -> Any:
            while True:
                left = max(deadline - time.monotonic(), 0.0)
                try:
                    return cls.open(name, timeout=min(left, _LOOK), domain=domain)
                except Timeout:
                    if left <= _LOOK or found.cancelled():
                        raise
                except OutOfMemory:
                    if time.monotonic() + _LOOK >= for_room or found.cancelled():
                        raise

        def run() -> None:
            with suppress(InvalidStateError):  # cancelled
                try:
                    found.set_result(look())
                except BaseException as error:
                    found.set_exception(error)

        threading.Thread(target=run, name="tensorbus-open", daemon=True).start()
        return await asyncio.wrap_future(found)

    def _join(self, core: _core.Queue, domain: str, name: str) -> None:
        self._core = core
        self._process = os.getpid()
        self._address = core.address
        self._name = "" if name == core.address else name
        self._domain = domain
        self._shared = core.shared
        self._made_with = (core.maxsize, core.redeliver, core.shared, core.max_bytes)
        self._access: _core.Access | None = None  # that of the queue
        self._known_elsewhere = bool(name)
        self._forks = forks()
        self._unread: deque[_Unread] = deque()  # taken, for the next get
        self._closed = False

    @property
    def _here(self) -> _core.Queue:
        """The core's queue, of this process: a forked child has its own, and asks nobody for it."""
        if self._closed:
            raise Closed("this process has closed the queue")
        if self._process != _getpid():
            home = participant(self._domain)
            self._core = _core.Queue.at(self._address, home, *self._made_with)
            self._process = os.getpid()
            if self._access is not None:
                self._core.receive_with(self._access)
            self._unread = deque()
        return self._core

    def _receive_with(self, access: Access | None) -> None:
        """What may be done with the tensors that this object gets; None: what the queue allows."""
        if access is not None:
            self._access = access_named(access)
            self._core.receive_with(self._access)

    @property
    def address(self) -> str:
        """A line of text by which `open` finds it."""
        self._known_elsewhere = True
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
        """Puts an item in; when it returns, the item is in the queue and this process may end.

        Args:
            item: any object that can be pickled.
            block, timeout: as the standard library's queues have them. With a `timeout` it also
                waits for memory, if the budget is used up by what others still read.
            stream: see `tensorbus.Publisher.publish`.

        Raises:
            queue.Full: there was no room, at once or in time.
            ShutDown: the queue was shut down.
            Closed: the queue, or the process that has it, is gone.
            OutOfMemory: a limit was reached here or in the process that has the queue, at once or
                still at the end of `timeout`; the message names it.
            InvalidArgument: the item alone has more than `max_bytes`.
            Timeout: the process that has the queue does not say whether the item is in it.
            Exception: whatever pickling the item raises.
        """
        limit = None if block and timeout is None else _wait(block, timeout)
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
        """`put` that does not wait for room."""
        self.put(item, block=False, stream=stream)

    def put_many(
        self, items: Iterable[T], timeout: float | None = None, *, stream: Any = None
    ) -> int:
        """Puts items in, in their order: faster than one `put` after another.

        Args:
            items: any objects that can be pickled.
            timeout: seconds in which all have to find room; `None` for as long as it takes.
            stream: see `tensorbus.Publisher.publish`.

        Returns:
            How many are in the queue: all, or if the time is over the first ones of them.

        Raises:
            ShutDown, Closed, OutOfMemory, InvalidArgument, Timeout, Exception: as `put` of one of
                the items. Those before it are in the queue.

        >>> with Queue(maxsize=4) as numbers:
        ...     numbers.put_many(range(10), timeout=0.01), numbers.get_many(8)
        (4, [0, 1, 2, 3])
        """
        limit = _wait(True, timeout)
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
        except Exception:  # of the iterable, or of an item: those before it are to be in the queue
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
        for count, one in enumerate(fields):  # one may never fit, and the next one does
            outcome = core.put(_core.Outgoing(), one, _left(deadline))
            if outcome is Outcome.TIMED_OUT:
                return count
            checked(outcome)
        return len(fields)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Takes the oldest item.

        Raises:
            queue.Empty: there was none, at once or in time.
            ShutDown: the queue was shut down, and nothing is left in it.
            Closed: the queue, or the process that has it, is gone.
            OutOfMemory: a limit was reached here, or the process that has the queue had no room for
                a connection, at once, still at the end of `timeout`, or without one for 5 seconds;
                the message names the limit.
            Exception: whatever unpickling the item raises.
        """
        limit = None if block and timeout is None else _wait(block, timeout)
        found = self._item(limit)
        item: T = found[0] if isinstance(found, tuple) else self._load(found)
        return item

    def get_many(self, max_count: int, timeout: float | None = None) -> list[T]:
        """Waits for the oldest item, and takes those behind it that wait already.

        Args:
            max_count: how many items at most.
            timeout: seconds to wait for the first one; `None` for as long as it takes.

        Returns:
            The items, the oldest first; at least one.

        Raises:
            queue.Empty: there was none in time.
            ShutDown, Closed: as `get`.
            Exception: whatever unpickling the first item raises. If another one does, the items
                before it are returned, and the next get raises.

        >>> with Queue() as numbers:
        ...     for number in range(3):
        ...         numbers.put(number)
        ...     numbers.get_many(2), numbers.get_many(8)
        ([0, 1], [2])
        """
        most = whole_number("max_count", max_count, least=1)
        limit = _wait(True, timeout)
        if unread := self._take_unread(most):
            return self._loaded([], unread)
        found = self._here.get_many(most, limit)
        if isinstance(found, Outcome):
            return [pickler.load(self._sample(found))]  # raises
        values, samples, raised = found
        if raised is not None:
            self._give_back(values, samples)
            raise raised
        return self._loaded(values, deque(samples)) if samples else values

    def _loaded(self, items: list[T], unread: deque[_Unread]) -> list[T]:
        while unread:
            try:
                items.append(_value(unread[0]))
            except Exception:
                if items:
                    self._give_back((), unread)
                    break
                self._give_back((), list(unread)[1:])
                raise
            except BaseException:
                self._give_back(items, unread)
                raise
            unread.popleft()
        return items

    def _load(self, found: _Unread) -> Any:
        """What was put. The next get has it if a signal handler raises meanwhile."""
        try:
            return _value(found)
        except Exception:
            raise
        except BaseException:
            self._give_back((), [found])
            raise

    def _give_back(self, values: Iterable[T], unread: Iterable[_Unread]) -> None:
        """To the next get of this process: what was taken, the oldest first."""
        self._unread.extendleft(reversed([*((value,) for value in values), *unread]))

    def get_nowait(self) -> T:
        """`get` that does not wait for an item."""
        return self.get(block=False)

    def __iter__(self) -> Iterator[T]:
        """The items as they come, until the queue is closed."""
        while True:
            try:
                found = self._item(None)
            except Closed:
                return
            item = found[0] if isinstance(found, tuple) else self._load(found)
            del found  # nothing is kept while we wait for the next
            yield item
            del item

    async def put_async(self, item: T, *, stream: Any = None) -> None:
        """`put` in an event loop. Cancelled, it may have put the item in, or not."""
        outgoing, fields = pickler.dump(item, shared=self._shared, stream=stream)
        await taken(self._here.start_put(outgoing, fields))

    async def get_async(self) -> T:
        """`get` in an event loop. Cancelled, it has taken none."""
        item: T = self._load(await self._found_async())
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
            item = self._load(found)
            del found
            yield item
            del item

    def qsize(self) -> int:
        """How many items wait, with those that an interrupted get of this object has left."""
        waiting = self.stats.items  # first: a forked child has nothing that its parent got
        return waiting + len(self._unread)

    def empty(self) -> bool:
        """Does no item wait? Others may put one at any moment."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Is there no room? Others may make some at any moment."""
        stats = self.stats
        return 0 < self.maxsize <= stats.items or 0 < self.max_bytes <= stats.bytes

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
        checked(outcome)
        return True

    def shutdown(self, immediate: bool = False) -> None:
        """Says, in any process: no more items. As `queue.Queue.shutdown` of Python 3.13.

        From now on `put` raises `ShutDown`, and `get` does so when no item is left; calls that wait
        are woken, in every process. `for item in queue` ends then. With `redeliver` a getter is
        told that nothing is left when the items of all other processes are done.

        Args:
            immediate: drops what waits; these items count as done.

        Raises:
            Closed: the queue, or the process that has it, is gone.
            Timeout: the process that has the queue does not answer.

        >>> with Queue() as jobs:
        ...     jobs.put("last")
        ...     jobs.shutdown()
        ...     list(jobs)
        ['last']
        """
        self._here.shutdown(immediate)

    @property
    def stats(self) -> QueueStats:
        """How many items wait, are unfinished, and were lost with the processes that had them."""
        return QueueStats(**self._here.stats)

    def close(self, timeout: float | None = 0) -> None:
        """Lets go of it here; in the process that made it, ends it for everybody.

        Items that nobody has got by then are dropped, and a warning of the logger `tensorbus.queue`
        gives their number. The end of a `with` block shuts the queue down and waits first, for as
        long as other processes take items: it goes on when none was taken for 60 seconds, or for 5
        if no other process that has asked for one lives. It does not wait after an exception, nor
        for a queue that no other process can know, or of which only this process has got items.

        Args:
            timeout: seconds for which the queue is shut down and others may take what waits; `None`
                for as long as it takes.
        """
        limit = seconds("timeout", timeout)
        if self._is_maker() and limit != 0:
            try:
                with suppress(Closed):  # it is closed already
                    self._core.shutdown(False)
                    self._core.drain(limit)
            finally:
                self._end()
        else:
            self._end()

    def __exit__(self, kind: object = None, *_: object) -> None:
        with suppress(Forked):  # a child that leaves its parent's block leaves it to the parent
            try:
                if kind is None and self._is_maker():
                    with suppress(Closed):  # it is closed already
                        wait_for_takers(self._core, self._known_elsewhere, self._forks)
            finally:
                self._end()

    def _is_maker(self) -> bool:
        return not self._closed and self._process == os.getpid() and self._core.made_here

    def _end(self) -> None:
        """`close` at once."""
        if self._is_maker():
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
        """`close` without a word about what waits: for queues of the package's own."""
        is_maker = self._is_maker()
        self._closed = True
        self._unread.clear()
        if is_maker:
            self._core.close()

    def _take_unread(self, most: int) -> deque[_Unread]:
        """What other calls have left, the oldest first. Other threads may take some of it."""
        unread: deque[_Unread] = deque()
        # A forked child has not got what its parent got.
        if self._unread and not self._closed and self._process == os.getpid():
            with suppress(IndexError):
                while len(unread) < most:
                    unread.append(self._unread.popleft())
        return unread

    def _found(self, timeout: float | None) -> _core.Sample:
        """For who takes nothing else from this queue."""
        return self._sample(self._here.get(timeout))

    def _item(self, timeout: float | None) -> _Unread:
        if self._unread and (unread := self._take_unread(1)):
            return unread[0]
        found = self._here.get_item(timeout)
        if not isinstance(found, tuple):
            return self._sample(found)
        if len(found) == 2:
            self._give_back((), [found[0]])
            raise found[1]
        return found

    async def _found_async(self) -> _Unread:
        if unread := self._take_unread(1):
            return unread[0]
        return self._sample(await taken(self._here.start_get()))

    def _sample(self, found: _core.Sample | Outcome) -> _core.Sample:
        if not isinstance(found, Outcome):
            return found
        if found is Outcome.TIMED_OUT:
            raise queue.Empty
        raise Error(f"a queue answered {checked(found)}")

    def __reduce__(self) -> tuple[Any, ...]:
        self._known_elsewhere = True
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


def _value(found: _Unread) -> Any:
    return found[0] if isinstance(found, tuple) else pickler.load(found)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)


def _wait(block: bool, timeout: float | None) -> float | None:
    if not block:
        return 0.0
    limit = seconds("timeout", timeout)
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return limit
