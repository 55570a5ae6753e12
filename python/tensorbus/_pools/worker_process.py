"""A worker of a pool, as the process that has the pool sees it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

from tensorbus._base.arguments import Access
from tensorbus._base.errors import Closed, InvalidArgument, Timeout
from tensorbus._core import Outcome, Pending
from tensorbus._pickling import pickler
from tensorbus._pools.death import Death
from tensorbus._pools.shortage import check_room_for_fork
from tensorbus._pools.task import Task
from tensorbus._pools.worker import Done, Failed, Job, work
from tensorbus._queues.queue import Queue


class Ways(NamedTuple):
    """How the workers of a pool are started, and what its processes may do with tensors."""

    context: BaseContext
    access: Access | None
    domain: str | None


class Unread(Failed):
    """The error of reading an answer, in this process."""


class WorkerProcess:
    """One process, with a queue to it and one from it. Has one task at most.

    Raises:
        Exception: the process could not be started, and nothing of it is left.
    """

    def __init__(self, number: int, job: Job, ways: Ways) -> None:
        self.number = number
        self.task: Task | None = None
        self.ready = False
        self.dead = False
        self._given = 0
        self._unsure = False  # could the queue from it not be asked?
        self._pending: Pending | None = None  # None: there was no memory for it, or no descriptor
        self._inbox = Queue(shared=ways.access == "shared", domain=ways.domain)
        self._outbox = Queue(shared=ways.access == "shared", domain=ways.domain)
        self._outbox._receive_with(ways.access)
        try:
            self._start(job, ways)
        except BaseException:
            self._discard_queues()
            raise

    def _start(self, job: Job, ways: Ways) -> None:
        inherited: Job | None = job  # by a child that is forked, as it is
        if ways.context.get_start_method() == "fork":
            check_room_for_fork()
        else:
            self._inbox.put(job)
            inherited = None
        addresses = self._inbox.address, self._outbox.address
        self._process = ways.context.Process(  # type: ignore[attr-defined]
            target=work,
            args=(*addresses, self._inbox._domain, inherited, ways.access),
            name=f"worker {self.number}",
        )
        self._process.start()
        try:
            self._death = Death(self._process)
        except BaseException:
            self._process.kill()
            self._process.join()
            raise
        self._listen()

    def _listen(self) -> None:
        self._pending = None
        try:
            pending = self._outbox._here.start_get()
            pending.fileno()  # makes it
            self._pending = pending
        except MemoryError:  # OutOfMemory, too
            pass
        except Closed:
            self.kill()

    @property
    def deaf(self) -> bool:
        """Is nothing readable when there is something to do? Then it is looked after often."""
        return self._pending is None or self._unsure

    @property
    def sources(self) -> list[int]:
        """Descriptors that are readable when there is something to look after."""
        found = [] if self._pending is None else [self._pending.fileno()]
        return found if self.dead else [*found, self._death.descriptor]

    @property
    def has_died(self) -> bool:
        return bool(wait([self._death.descriptor], 0))

    @property
    def owes(self) -> bool:
        """Has it sent an answer that is not read yet? Perhaps, if there is no memory to ask."""
        self._unsure = False
        try:
            return self._outbox.stats.unfinished > 0
        except Closed:
            return False
        except (MemoryError, Timeout):
            self._unsure = True
            return True

    @property
    def name(self) -> str:
        return f"worker {self.number} (process {self._process.pid})"

    def give(self, task: Task) -> None:
        self._inbox.put(task.item)
        self._given += 1
        task.tries += 1
        self.task = task

    def finished(self, answer: Done | Failed) -> Task | None:
        """The task that it answers."""
        if answer.number not in (None, self._given):
            return None  # it was not readable before
        task, self.task = self.task, None
        return task

    def answers(self) -> Iterator[Any]:
        """What it has sent. For an answer that cannot be read, the error of reading it.

        A worker whose queue a shortage has cut off is killed: it is replaced as one that died.
        """
        if self._pending is None:
            self._listen()
        while self._pending is not None:
            try:
                found = self._pending.take()
            except MemoryError as error:  # it comes again, when there is memory
                self._pending.cancel()
                self._pending = None
                yield Unread(error)
                return
            except Closed:
                self.kill()
                return
            except Exception as error:
                answer: Any = Unread(error)
            else:
                if found is Outcome.CLOSED:
                    self.kill()
                if isinstance(found, Outcome):
                    return
                answer = _read(found)
            self._listen()
            with suppress(InvalidArgument, Closed):  # nothing was taken
                self._outbox.task_done()
            yield answer

    def wait_beside(self, descriptor: int) -> None:
        """Waits for its death, or until the descriptor is readable."""
        wait([self._death.descriptor, descriptor])

    def dismiss(self) -> None:
        """It ends when its current task is done; at once if it is not ready for one."""
        if self.ready:
            self._inbox._discard()
        else:
            self.kill()

    def kill(self) -> None:
        self._death.bring_about()

    def reap(self) -> int:
        """Waits for its end, and returns the exit code."""
        self._process.join()
        self._discard_queues()
        self._death.close()
        code: int = self._process.exitcode
        return code

    def _discard_queues(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
        self._inbox._discard()
        self._outbox._discard()


def _read(found: Any) -> Any:
    try:
        return pickler.load(found)
    except BaseException as error:  # an import in it may call sys.exit
        return Unread(error)


def end_in_words(code: int | None) -> str:
    """
    >>> end_in_words(-9), end_in_words(3)
    ('by SIGKILL (exit code -9)', 'with exit code 3')
    """
    if code is None:
        return "for an unknown reason"
    if code < 0:
        with suppress(ValueError):
            return f"by {signal.Signals(-code).name} (exit code {code})"
    return f"with exit code {code}"


def ended_for_shortage(code: int | None) -> bool:
    """Did it end since it could not join the bus for now?"""
    return code == os.EX_TEMPFAIL
