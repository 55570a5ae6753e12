"""The calls of a queue for event loops."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Generic

from tensorbus import _core
from tensorbus._base.errors import Closed
from tensorbus._base.generics import T
from tensorbus._core import Outcome
from tensorbus._pickling import pickler
from tensorbus._queues.handle import Handle
from tensorbus._queues.pending import checked, outcome_of
from tensorbus._queues.unread import Item

if TYPE_CHECKING:
    pass


class AsyncCalls(Handle, Generic[T]):
    """Base of `Queue`."""

    async def put_async(self, item: T, *, stream: Any = None) -> None:
        """`put` in an event loop; waits for room without blocking it.

        After a cancellation the item may be in the queue. It raises like `put`, but never
        `queue.Full`.
        """

        def start(core: _core.Queue) -> _core.Pending:
            return core.start_put(*pickler.dump(item, shared=self._shared, stream=stream))

        checked(await self._outcome_of(start))

    async def get_async(self) -> T:
        """`get` in an event loop. A cancelled call has taken no item. It raises like `get`."""
        item: T = self._unread.load(await self._take_async())
        return item

    async def join_async(self) -> None:
        """`join` in an event loop."""
        core, reopening = self._here, self._reopening
        pending = outcome_of(core.start_join()) if reopening is None else reopening.join_async()
        checked(await pending)

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

    async def _take_async(self) -> Item:
        if kept := self._take_kept(1):
            return kept[0]
        return self._sample(await self._outcome_of(lambda core: core.start_get()))

    async def _outcome_of(
        self, start: Callable[[_core.Queue], _core.Pending]
    ) -> _core.Sample | Outcome:
        """The outcome of a request; with `reopen`, to one queue after the other."""
        core, reopening = self._here, self._reopening
        return await (outcome_of(start(core)) if reopening is None else reopening.outcome_of(start))
