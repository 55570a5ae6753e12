"""Waiting for any number of descriptors in an event loop that watches only one."""

from __future__ import annotations

import asyncio
import errno
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary, ref

from tensorbus._base.errors import OutOfMemory
from tensorbus._core import raise_system_error

_MAX_EVENTS = 16  # of one poll; without a number, Python allocates room for a thousand


class Wait:
    """One task's wait for a descriptor, as a context: check, `await woken()`, and check again.

    No event is missed under two conditions. The descriptor becomes readable again for each event
    after a check that found none. And the task does nothing between that check and `woken()` except
    entering the context. Use it only in the loop's thread.

    Args:
        descriptor: it must stay open as long as the context.
        timeout: seconds until `over`, or None.
        owner: the object that owns the descriptor, and closes it when it is freed; the descriptor
            is not shared with other processes. It then stays registered for the next wait.

    Raises:
        OutOfMemory: no descriptor is left, or the epoll is full. Entering the context raises it,
            too.
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
        with suppress(RuntimeError):  # the loop was closed before its tasks ended
            self._loop.call_soon_threadsafe(self.wake)

    def end(self) -> None:
        """Ends the wait by its timeout. In the loop's thread."""
        self.over = True
        self.wake()


class LoopPoller:
    """Wakes the tasks of one event loop. The loop watches one epoll, which has all descriptors.

    A descriptor is registered while a task waits for it. A descriptor with an owner stays
    registered, so that a task that receives repeatedly needs no system call for each wait. It is
    removed when it is closed, or after two events in a row for which no task waited. A descriptor
    without an owner is removed at once: other processes may share it, so that closing it here would
    not remove it from the epoll.

    Registration is edge-triggered: a descriptor that stays readable, because its tasks wait for
    something else, does not keep the loop busy. An event wakes all tasks that wait for the
    descriptor, so that no task has to wake another.

    Waits with a timeout share one timer of the loop, set for the earliest deadline. The timer is
    kept if that wait ends early: the next wait usually has the same timeout, so that one timer
    serves many waits.

    Only the loop's reader callback holds the poller: closing the loop closes the epoll. Use it only
    in the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watched: dict[int, _Watched] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_end = 0.0  # in the loop's time
        with _epoll_errors():
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._on_ready)

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> LoopPoller:
        """The loop's poller, made on first use."""
        reference = _pollers.get(loop)
        poller = reference() if reference is not None else None
        if poller is None:
            poller = LoopPoller(loop)
            _pollers[loop] = ref(poller)
        return poller

    def add(self, wait: Wait) -> None:
        """Starts a wait; a newly registered descriptor also reports earlier events."""
        watched = self._watched.get(wait.descriptor)
        if watched is None or not watched.is_of(wait.owner):
            with _epoll_errors():
                self._epoll.register(wait.descriptor, select.EPOLLIN | select.EPOLLET)
            watched = self._watched[wait.descriptor] = _Watched(wait.owner)
        watched.waits[wait] = None
        watched.had_idle_event = False

    def remove(self, wait: Wait) -> None:
        watched = self._watched[wait.descriptor]
        del watched.waits[wait]
        if watched.owner is None and not watched.waits:
            self._forget(wait.descriptor)

    def end_at(self, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        """Sets the timer for a wait that ends at this time of the loop."""
        if self._timer is not None:
            if self._timer_end <= deadline:
                return
            self._timer.cancel()
        self._timer_end = deadline
        # A weak reference: the poller holds the timer.
        self._timer = loop.call_at(deadline, _end_due_waits, ref(self), loop)

    def end_due(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ends the waits whose deadline has passed, and sets the timer for the next deadline."""
        self._timer = None
        now = self._timer_end  # not loop.time(): loops may call a timer slightly early
        for watched in self._watched.values():
            for wait in watched.waits:
                if wait.deadline is None:
                    continue
                if wait.deadline <= now:
                    wait.end()
                else:
                    self.end_at(wait.deadline, loop)

    def _on_ready(self) -> None:
        for descriptor, _ in self._epoll.poll(0, _MAX_EVENTS):
            watched = self._watched.get(descriptor)
            if watched is None:
                continue
            for wait in watched.waits:
                wait.wake()
            if not watched.waits:
                # One idle event is usual: more samples may have arrived with the last taken sample.
                if watched.had_idle_event:
                    self._forget(descriptor)
                watched.had_idle_event = True

    def _forget(self, descriptor: int) -> None:
        del self._watched[descriptor]
        with suppress(OSError):  # in a forked child the bus's descriptors are closed
            self._epoll.unregister(descriptor)


class _Watched:
    """A descriptor in the epoll."""

    __slots__ = ("had_idle_event", "owner", "waits")

    def __init__(self, owner: object | None) -> None:
        self.waits: dict[Wait, None] = {}
        self.owner = None if owner is None else ref(owner)
        self.had_idle_event = False  # the last event came while no task waited

    def is_of(self, owner: object | None) -> bool:
        """Whether this is still the owner's descriptor.

        If False, the former owner has closed it, and a new descriptor has the same number. A
        descriptor that a task waits for cannot be closed.
        """
        if self.waits:
            return True
        return owner is not None and self.owner is not None and self.owner() is owner


def _end_due_waits(poller: ref[LoopPoller], loop: asyncio.AbstractEventLoop) -> None:
    alive = poller()
    if alive is not None:
        alive.end_due(loop)


@contextmanager
def _epoll_errors() -> Iterator[None]:
    """Raises `OutOfMemory` or `SystemCallError` for errors of epoll."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OutOfMemory(
                "waiting in an event loop: this user watches fs.epoll.max_user_watches "
                "descriptors: close some, or raise the limit"
            ) from None
        raise_system_error("waiting in an event loop", error.errno or errno.EIO)


# Shared by the loops of all threads, without a lock: only a loop's own thread uses its entry, each
# access is a single look-up or assignment, and no code iterates over the dictionary.
_pollers: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[LoopPoller]] = WeakKeyDictionary()
