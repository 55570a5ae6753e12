"""Waiting for any number of descriptors in an event loop that hears of one."""

from __future__ import annotations

import asyncio
import errno
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from weakref import WeakKeyDictionary, ref

from tensorbus._core import raise_system_error


class Wait:
    """One task's wait for a descriptor, as a context: look, then `await woken()`, and look again.

    Nothing is missed if whatever makes the descriptor readable writes to it once more for what
    comes after a look that found nothing. Made and used in the loop's thread.

    Args:
        descriptor: stays open for as long as the context.
        timeout: seconds until `over`, or None.

    Raises:
        OutOfMemory: there is no descriptor left to watch with. Here, or on entering the context.
    """

    def __init__(self, descriptor: int, timeout: float | None) -> None:
        self.descriptor = descriptor
        self.over = False
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._poller = LoopPoller.of(self._loop)
        self._woken = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Wait:
        self._poller.add(self)
        if self._timeout is not None:
            self._timer = self._loop.call_later(self._timeout, self._end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._poller.remove(self)

    async def woken(self) -> None:
        """Returns when the descriptor may be readable, when `wake` was called, or when `over`."""
        self._woken = self._loop.create_future()
        await self._woken

    def wake(self) -> None:
        """Wakes the task. In the loop's thread."""
        if not self._woken.done():
            self._woken.set_result(None)

    def wake_soon(self) -> None:
        """Wakes the task, from any thread."""
        with suppress(RuntimeError):  # the loop was closed over its tasks
            self._loop.call_soon_threadsafe(self.wake)

    def _end(self) -> None:
        self.over = True
        self.wake()


class LoopPoller:
    """Wakes the tasks of one event loop. All their descriptors are in one epoll, the loop's one.

    A descriptor is in it only while somebody waits for it: it is shared with other processes, so
    that closing it here would not take it out. It is there edge-triggered: one that stays readable,
    because those who wait for it are after something else, does not keep the loop busy. All who
    wait for a descriptor are woken together, so that none has to pass on what it was told.

    The loop alone keeps its poller, by the callback: closing the loop closes the epoll. In the
    loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waits: dict[int, dict[Wait, None]] = {}
        with _told_as_ours():
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._on_ready)

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> LoopPoller:
        """The loop's poller, made on first use."""
        known = _pollers.get(loop)
        poller = known() if known is not None else None
        if poller is None:
            poller = LoopPoller(loop)
            _pollers[loop] = ref(poller)
        return poller

    def add(self, wait: Wait) -> None:
        """Wakes it from now on; also for what was there, if it is the first at its descriptor."""
        waits = self._waits.get(wait.descriptor)
        if waits is None:
            with _told_as_ours():
                self._epoll.register(wait.descriptor, select.EPOLLIN | select.EPOLLET)
            waits = self._waits[wait.descriptor] = {}
        waits[wait] = None

    def remove(self, wait: Wait) -> None:
        waits = self._waits[wait.descriptor]
        del waits[wait]
        if not waits:
            del self._waits[wait.descriptor]
            with suppress(OSError):  # a forked child, where the bus's descriptors are closed
                self._epoll.unregister(wait.descriptor)

    def _on_ready(self) -> None:
        for descriptor, _ in self._epoll.poll(0):
            for wait in self._waits.get(descriptor, ()):
                wait.wake()


@contextmanager
def _told_as_ours() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise_system_error("waiting in an event loop", error.errno or errno.EIO)


# A loop's entry is touched by the loop's thread alone.
_pollers: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[LoopPoller]] = WeakKeyDictionary()
