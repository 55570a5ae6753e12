"""The calls of a queue that put items in."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable
from typing import Any, Generic

from tensorbus import _core
from tensorbus._base.generics import T
from tensorbus._core import Outcome
from tensorbus._pickling import pickler
from tensorbus._pickling.pickler import NO_TENSORS
from tensorbus._queues.handle import Handle, left_of, limit_of
from tensorbus._queues.pending import checked

_BATCH = 128  # items that put_many() passes to the core in one call


class PutCalls(Handle, Generic[T]):
    """Base of `Queue`."""

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
        limit = None if block and timeout is None else limit_of(block, timeout)
        outcome = self._here.put_plain(item, limit) if stream is None else None
        if outcome is True:
            return
        if outcome is None:
            message = pickler.dump(item, shared=self._shared, stream=stream)
            outcome = self._put_message(message, item, stream, limit)
        if outcome is Outcome.TIMED_OUT:
            raise queue.Full(self._timeout_text("it is full"))
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

        >>> from tensorbus import Queue
        >>> with Queue(maxsize=4) as numbers:
        ...     numbers.put_many(range(10), timeout=0.01), numbers.get_many(8)
        (4, [0, 1, 2, 3])
        """
        limit = limit_of(True, timeout)
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
                    message = outgoing, fields
                    outcome = self._put_message(message, item, stream, left_of(deadline))
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
        count = 0

        def put_rest(core: _core.Queue, left: float | None) -> Outcome:
            nonlocal count
            if core.max_bytes == 0:
                put, outcome = core.put_many(fields[count:], left)
                count += put
                return outcome
            # An item may exceed `max_bytes`, and the next may fit.
            for one in fields[count:]:
                outcome = core.put(_core.Outgoing(), one, left_of(deadline))
                if outcome is not Outcome.DONE:
                    return outcome
                count += 1
            return Outcome.DONE

        outcome = self._call(put_rest, left_of(deadline))
        if outcome is not Outcome.TIMED_OUT:
            checked(outcome)
        return count

    def _put_message(
        self, message: tuple[_core.Outgoing, bytes], item: T, stream: Any, limit: float | None
    ) -> Outcome:
        """Puts an item that was pickled. With `reopen`, pickles it for each further queue."""
        if self._reopening is None:
            return self._here.put(*message, limit)
        messages = [message]  # a put empties it

        def put(core: _core.Queue, left: float | None) -> Outcome:
            outgoing, fields = (
                messages.pop()
                if messages
                else pickler.dump(item, shared=self._shared, stream=stream)
            )
            return core.put(outgoing, fields, left)

        return self._call(put, limit)
