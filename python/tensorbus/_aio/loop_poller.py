"""Waiting for any number of descriptors in an event loop that hears of one."""

from __future__ import annotations

import asyncio
import errno
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary, ref

from tensorbus._base.errors import OutOfMemory
from tensorbus._core import raise_system_error

_AT_ONCE = 16  # descriptors; epoll makes room for as many, and for a thousand if it is not told


class Wait:
    """One task's wait for a descriptor, as a context: look, then `await woken()`, and look again.

    Nothing is missed if whatever makes the descriptor readable writes to it once more for what
    comes after a look that found nothing, and if the task does nothing between that look and
    `woken()` but enter the context. Made and used in the loop's thread.

    Args:
        descriptor: stays open for as long as the context.
        timeout: seconds until `over`, or None.
        owner: of the descriptor, which it closes when it goes, and which no other process has. The
            next wait for the same one need not have it watched anew.

    Raises:
        OutOfMemory: there is no descriptor left to watch with. Here, or on entering the context.
    """

    def __init__(self, descriptor: int, timeout: float | None, owner: object | None = None) -> None:
        self.descriptor = descriptor
        self.owner = owner
        self.over = False
        self._loop = asyncio.get_running_loop()
        self.deadline = None if timeout is None else self._loop.time() + timeout
        self._poller = LoopPoller.of(self._loop)
        self._woken: asyncio.Future[None] | None = None

    def __enter__(self) -> Wait:
        self._poller.add(self)
        if self.deadline is not None:
            self._poller.end_at(self.deadline, self._loop)
        return self

    def __exit__(self, *_: object) -> None:
        self._poller.remove(self)

    def woken(self) -> asyncio.Future[None]:
        """Done when the descriptor may be readable, when `wake` was called, or when `over`."""
        self._woken = self._loop.create_future()
        return self._woken

    def wake(self) -> None:
        """Wakes the task. In the loop's thread."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def wake_soon(self) -> None:
        """Wakes the task, from any thread."""
        with suppress(RuntimeError):  # the loop was closed over its tasks
            self._loop.call_soon_threadsafe(self.wake)

    def end(self) -> None:
        """Its time is up. In the loop's thread."""
        self.over = True
        self.wake()


class LoopPoller:
    """Wakes the tasks of one event loop. All their descriptors are in one epoll, the loop's one.

    A descriptor is in it while somebody waits for it. One with an owner stays, so that who receives
    in a loop makes no system call to be told of the next sample, and goes when it has told twice in
    a row what nobody waited for, or is closed. Others, which may be shared with other processes, so
    that closing them here would not take them out, are taken out at once.

    It is there edge-triggered: one that stays readable, because those who wait for it are after
    something else, does not keep the loop busy. All who wait for a descriptor are woken together,
    so that none has to pass on what it was told.

    The waits that end at some time share one timer of the loop, set for the first of them. It stays
    when that one was woken before: the next is as long as a rule, so that one timer does for many.

    The loop alone keeps its poller, by the callback: closing the loop closes the epoll. In the
    loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watched: dict[int, _Watched] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_end = 0.0  # in the loop's time
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
        """Wakes it from now on; also for what was there, if its descriptor is watched anew."""
        watched = self._watched.get(wait.descriptor)
        if watched is None or not watched.is_of(wait.owner):
            with _told_as_ours():
                self._epoll.register(wait.descriptor, select.EPOLLIN | select.EPOLLET)
            watched = self._watched[wait.descriptor] = _Watched(wait.owner)
        watched.waits[wait] = None
        watched.told_nobody = False

    def remove(self, wait: Wait) -> None:
        watched = self._watched[wait.descriptor]
        del watched.waits[wait]
        if watched.owner is None and not watched.waits:
            self._forget(wait.descriptor)

    def end_at(self, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        """Ends the waits of this deadline, in the loop's time, when it comes."""
        if self._timer is not None:
            if self._timer_end <= deadline:
                return
            self._timer.cancel()
        self._timer_end = deadline
        # It must not keep us, who keep it.
        self._timer = loop.call_at(deadline, _end_due_waits, ref(self), loop)

    def end_due(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ends the waits whose time is up, and sets the timer for the next."""
        self._timer = None
        now = self._timer_end  # not by the clock, which loops round in ways of their own
        for watched in self._watched.values():
            for wait in watched.waits:
                if wait.deadline is None:
                    continue
                if wait.deadline <= now:
                    wait.end()
                else:
                    self.end_at(wait.deadline, loop)

    def _on_ready(self) -> None:
        for descriptor, _ in self._epoll.poll(0, _AT_ONCE):
            watched = self._watched.get(descriptor)
            if watched is None:
                continue
            for wait in watched.waits:
                wait.wake()
            if not watched.waits:
                # Once is as a rule: of there being more, perhaps, than the sample just taken.
                if watched.told_nobody:
                    self._forget(descriptor)
                watched.told_nobody = True

    def _forget(self, descriptor: int) -> None:
        del self._watched[descriptor]
        with suppress(OSError):  # a forked child, where the bus's descriptors are closed
            self._epoll.unregister(descriptor)


class _Watched:
    """A descriptor that is in the epoll."""

    __slots__ = ("owner", "told_nobody", "waits")

    def __init__(self, owner: object | None) -> None:
        self.waits: dict[Wait, None] = {}
        self.owner = None if owner is None else ref(owner)
        self.told_nobody = False

    def is_of(self, owner: object | None) -> bool:
        """False: the owner is gone and its descriptor closed, and this one is of the same number.

        While somebody waits, it cannot be closed.
        """
        if self.waits:
            return True
        return owner is not None and self.owner is not None and self.owner() is owner


def _end_due_waits(poller: ref[LoopPoller], loop: asyncio.AbstractEventLoop) -> None:
    alive = poller()
    if alive is not None:
        alive.end_due(loop)


@contextmanager
def _told_as_ours() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OutOfMemory(
                "waiting in an event loop: fs.epoll.max_user_watches for this user, and so many "
                "descriptors are watched: close some, or raise it"
            ) from None
        raise_system_error("waiting in an event loop", error.errno or errno.EIO)


# A loop's entry is touched by the loop's thread alone, in one look-up or one assignment. Nobody
# iterates over the dictionary, which is one for the loops of all threads.
_pollers: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[LoopPoller]] = WeakKeyDictionary()
