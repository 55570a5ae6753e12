"""Publishing with asyncio."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic

from tensorbus._aio.loop_poller import Wait
from tensorbus._base.arguments import seconds
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Timeout
from tensorbus._base.generics import T
from tensorbus._base.public import public
from tensorbus._topics.publisher import Publisher

if TYPE_CHECKING:
    from tensorbus._base.generics import MessageClass
    from tensorbus._base.stats import PublisherStats
    from tensorbus._topics.sample import Header, Sample

# Seconds between two polls of a waiting task. Notifications alone are not enough: a subscriber may
# be stopped before it sends one, and no notification marks the end of `lag_timeout`.
_INTERVAL = 0.1


@public
class AsyncPublisher(Closing, Generic[T]):
    """A `Publisher` for asyncio: if reliable, it waits for room without blocking the event loop.

    It starts no thread. Samples of several tasks are published in the order of the calls. A call
    that is cancelled while it waits has published nothing. Use each publisher in one event loop.

    Args:
        topic, message_type, depth, history, reliable, lag_timeout, shared, isolated, timeout,
            domain: see `Publisher`.

    Raises:
        InvalidArgument, TypeError, MessageError, Unsupported, AccessDenied: as `Publisher`.

    >>> import asyncio
    >>> from tensorbus import AsyncSubscriber
    >>> async def send():
    ...     async with AsyncPublisher("doc/send", depth=1, reliable=True) as publisher:
    ...         await publisher.wait_for_subscribers(timeout=10)
    ...         for number in range(3):
    ...             await publisher.publish(number)
    >>> async def main():
    ...     async with AsyncSubscriber("doc/send", timeout=10, end_of_stream=True) as subscriber:
    ...         sending = asyncio.create_task(send())
    ...         print([sample.data async for sample in subscriber])
    ...         await sending
    >>> asyncio.run(main())
    [0, 1, 2]
    """

    _in_a_child = "open the topic in the child"

    def __init__(
        self,
        topic: str,
        message_type: MessageClass[T] | None = None,
        *,
        depth: int | None = None,
        history: int = 0,
        reliable: bool = False,
        lag_timeout: float | None = None,
        shared: bool = False,
        isolated: bool = False,
        timeout: float | None = None,
        domain: str | None = None,
    ) -> None:
        self._closed = False
        self._publisher: Publisher[T] = Publisher(
            topic,
            message_type,
            depth=depth,
            history=history,
            reliable=reliable,
            lag_timeout=lag_timeout,
            shared=shared,
            isolated=isolated,
            timeout=timeout,
            domain=domain,
        )
        self._timeout = seconds("timeout", timeout)
        self._descriptor = self._publisher.fileno()
        self._turns: deque[_Turn] = deque()  # one for each task in `publish`, the next one first

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._publisher.topic

    def loan(
        self, shape: Any = None, dtype: Any = None, *, like: Any = None, device: Any = None
    ) -> Any:
        """See `Publisher.loan`. It never waits."""
        return self._publisher.loan(shape, dtype, like=like, device=device)

    async def publish(
        self,
        data: T,
        *,
        timeout: float | None = None,
        stream: Any = None,
        parents: Iterable[Sample[Any] | Header] | None = None,
    ) -> int:
        """Publishes like `Publisher.publish`; a reliable publisher awaits room.

        Tensors that are not loans are copied in the loop's thread, once the subscribers' queues
        have room. The call does not wait for memory.

        Args:
            data: the tensor or message.
            timeout: seconds to wait for room; by default the publisher's own.
            stream, parents: see `Publisher.publish`.

        Returns:
            The number of subscribers that have the sample in their queues.

        Raises:
            Timeout: a reliable publisher found no room in time; no subscriber got the sample.
            Closed: the publisher is closed, or was closed during the call.
            Unsupported, MessageError, InvalidArgument, OutOfMemory: as `Publisher.publish`.
        """
        deadline = _deadline(self._timeout if timeout is None else timeout)
        turn = _Turn()
        self._turns.append(turn)
        try:
            while True:
                left = deadline - asyncio.get_running_loop().time()
                first = self._turns[0] is turn
                if first and (left <= 0 or self._publisher.ready()):
                    try:
                        return self._publisher.publish(
                            data, timeout=0, stream=stream, parents=parents
                        )
                    except Timeout:  # possible before the deadline: another thread took the room
                        if left <= 0:
                            raise
                        continue
                if left <= 0:
                    raise self._publisher._late()
                with Wait(self._descriptor, min(left, _INTERVAL), self._publisher) as turn.wait:
                    await turn.wait.woken()
        finally:
            self._turns.remove(turn)
            if self._turns and (waiting := self._turns[0].wait) is not None:
                waiting.wake()

    async def wait_for_subscribers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Waits until at least `count` subscribers are connected; False after `timeout` seconds.

        Raises:
            Closed: the publisher is closed.
        """
        deadline = _deadline(timeout)
        while not self._publisher.wait_for_subscribers(count, 0):
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            with Wait(self._descriptor, min(left, _INTERVAL), self._publisher) as wait:
                await wait.woken()
        return True

    @property
    def stats(self) -> PublisherStats:
        """See `Publisher.stats`; `waited` does not count the waits of tasks."""
        return self._publisher.stats

    def close(self) -> None:
        """Closes the publisher and ends its waiting calls; queued samples are still delivered."""
        self._closed = True
        self._publisher.close()

    async def __aenter__(self) -> AsyncPublisher[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"subscribers={self.stats.subscribers}"
        return f"<tensorbus.AsyncPublisher {self.topic!r} {state}>"

    def _repr_html_(self) -> str:
        return self._publisher._repr_html_()


class _Turn:
    """A task's place in the order of `publish`."""

    __slots__ = ("wait",)

    def __init__(self) -> None:
        self.wait: Wait | None = None


def _deadline(timeout: float | None) -> float:
    limit = seconds("timeout", timeout)
    return math.inf if limit is None else asyncio.get_running_loop().time() + limit
