"""The items of a pool that no worker has."""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from collections import OrderedDict, deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from tensorbus._pools.batches import Limits
from tensorbus._pools.task import Task, copy_of

# A heap is made anew when it has so many more entries than there are tasks.
_MAX_STALE = 100


class Waiting:
    """Tasks by priority, then by age. Any thread may add tasks; the pool's thread takes them.

    While `max_waiting` tasks wait, no task is added, other than by `put_back`; None: no limit.

    The lock guards all members. It is reentrant, because a garbage collection may cancel a future
    in a thread that has the lock: `_note_cancellation` changes nothing else.
    """

    def __init__(self, limits: Limits, max_waiting: int | None = None) -> None:
        self.wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # readable: there is news
        self._limits = limits
        self._max = max_waiting
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._room = threading.Condition(self._lock)  # notified when there may be room
        self._open = True
        self._refusal: BaseException | None = None  # why new tasks are refused
        self._numbers = count()
        self._tasks: OrderedDict[int, Task] = OrderedDict()  # the oldest first
        # Heaps of numbers. An entry may outlive its task's wait: numbers are used once.
        self._order: list[tuple[int, int]] = []  # by negative priority
        self._deadlines: list[tuple[float, int]] = []
        self._cancelled: deque[int] = deque()  # numbers
        self._dropped: list[Task] = []  # cancelled tasks that were taken from the others

    # Any thread may call these methods.

    def submit(
        self,
        item: Any,
        priority: int = 0,
        deadline: float = math.inf,
        room_deadline: float = -math.inf,
    ) -> Future[Any]:
        """Adds an item, and returns the future of its result.

        Args:
            room_deadline: time of the monotonic clock until which it waits for room.

        Raises:
            queue.Full: there is no room.
            BaseException: the reason of `refuse`.
        """
        with self._lock:
            self._wait_for_room(room_deadline)
            if self._refusal is not None:
                raise copy_of(self._refusal)
            task = Task(item, priority, deadline)
            task.number = next(self._numbers)
            task.future.add_done_callback(partial(self._note_cancellation, task.number))
            self._drop_stale()
            self._add(task)
            self.wake()
        return task.future

    def refuse(self, why: BaseException) -> None:
        """Refuses items from now on, with this exception unless they are refused already."""
        with self._lock:
            self._refusal = self._refusal or why
            self._room.notify_all()
            self.wake()

    @property
    def refusal(self) -> BaseException | None:
        return self._refusal

    def wake(self) -> None:
        with self._lock:
            if self._open:
                os.eventfd_write(self.wakeup, 1)

    def __len__(self) -> int:
        return len(self._tasks) + len(self._dropped)

    def _wait_for_room(self, deadline: float) -> None:
        """Waits for room, or for the reason of `refuse`. Requires the lock."""
        while self._refusal is None and not self._has_room():
            left = deadline - time.monotonic()
            if left <= 0:
                raise queue.Full(f"{self._max} items wait in the worker pool, its max_waiting")
            self._room.wait(None if math.isinf(left) else min(left, threading.TIMEOUT_MAX))

    def _has_room(self) -> bool:
        if self._max is None or len(self._tasks) < self._max:
            return True
        self._drop_cancelled()
        return len(self._tasks) < self._max

    def _drop_cancelled(self) -> None:
        """Requires the lock."""
        while self._cancelled:
            task = self._tasks.pop(self._cancelled.popleft(), None)
            if task is not None:
                self._dropped.append(task)

    def _note_cancellation(self, number: int, future: Future[Any]) -> None:
        # Not in a forked child: a thread of the parent may have had the lock at the fork.
        if future.cancelled() and os.getpid() == self._process:
            self._cancelled.append(number)
            self.wake()

    # Only the pool's thread calls these methods.

    def take(self) -> list[Task]:
        """The tasks of the next batch: those of the highest priority, the oldest of them first."""
        size = self._limits.size or 1
        taken: list[Task] = []
        with self._lock:
            while self._order and len(taken) < size:
                task = self._tasks.get(self._order[0][1])
                if task is not None:
                    if task.alone and taken:
                        break
                    del self._tasks[task.number]
                    taken.append(task)
                heappop(self._order)
                if task is not None and task.alone:
                    break
            self._room.notify_all()
        return taken

    def due(self) -> float:
        """When an idle worker is to get the next batch: -inf for at once, inf if there is none.

        A batch that is not full waits for further items, unless the time of an item would be over
        before.
        """
        if not self._tasks:
            return math.inf
        with self._lock:
            oldest = next(iter(self._tasks.values()))
            full = len(self._tasks) >= (self._limits.size or 1)
            if full or oldest.alone or self._refusal is not None:
                return -math.inf
            due = oldest.submitted + self._limits.max_wait
            return -math.inf if self.next_deadline() <= due else due

    def next_deadline(self) -> float:
        """The first deadline of a task; inf if there is none."""
        if not self._deadlines:
            return math.inf
        with self._lock:
            while self._deadlines and self._deadlines[0][1] not in self._tasks:
                heappop(self._deadlines)
            return self._deadlines[0][0] if self._deadlines else math.inf

    def take_expired(self) -> list[Task]:
        """The tasks whose deadline has passed."""
        expired: list[Task] = []
        if not self._deadlines:
            return expired
        with self._lock:
            now = time.monotonic()
            while self.next_deadline() <= now:
                expired.append(self._tasks.pop(heappop(self._deadlines)[1]))
            self._room.notify_all()
        return expired

    def take_cancelled(self) -> list[Task]:
        """The tasks whose futures were cancelled."""
        if not (self._cancelled or self._dropped):
            return []
        with self._lock:
            self._drop_cancelled()
            cancelled, self._dropped = self._dropped, []
            self._room.notify_all()
        return cancelled

    def take_unbegun(self) -> list[Task]:
        """The tasks that no worker has had."""
        with self._lock:
            unbegun = [task for task in self._tasks.values() if not task.begun]
            for task in unbegun:
                del self._tasks[task.number]
            self._room.notify_all()
        return unbegun

    def put_back(self, tasks: list[Task]) -> None:
        """Adds tasks that a worker has had. Each goes to the next worker alone."""
        with self._lock:
            for task in reversed(tasks):
                task.alone = True
                self._add(task)
                self._tasks.move_to_end(task.number, last=False)

    def take_all(self) -> list[Task]:
        with self._lock:
            left = [*self._tasks.values(), *self._dropped]
            self._tasks.clear()
            self._dropped.clear()
        return left

    def close(self) -> None:
        """Closes the descriptor."""
        with self._lock:
            self._open = False
            os.close(self.wakeup)

    def clear_wakeup(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self.wakeup)

    def _add(self, task: Task) -> None:
        self._tasks[task.number] = task
        heappush(self._order, (-task.priority, task.number))
        if task.deadline < math.inf:
            heappush(self._deadlines, (task.deadline, task.number))

    def _drop_stale(self) -> None:
        most = 2 * len(self._tasks) + _MAX_STALE
        if len(self._order) > most:
            self._order = [(-task.priority, number) for number, task in self._tasks.items()]
            heapify(self._order)
        if len(self._deadlines) > most:
            entries = ((task.deadline, number) for number, task in self._tasks.items())
            self._deadlines = [entry for entry in entries if entry[0] < math.inf]
            heapify(self._deadlines)
