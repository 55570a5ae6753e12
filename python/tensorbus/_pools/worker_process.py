"""A worker process of a pool, controlled by the pool's process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

from tensorbus._base.arguments import Access
from tensorbus._base.errors import Closed, InvalidArgument, Timeout
from tensorbus._core import Outcome, Pending
from tensorbus._pickling import pickler
from tensorbus._pools.answers import Done, Failed
from tensorbus._pools.death import Death
from tensorbus._pools.importable import check_importable
from tensorbus._pools.shortage import check_room_for_fork
from tensorbus._pools.task import Task
from tensorbus._pools.worker import Job, work
from tensorbus._queues.queue import Queue
from tensorbus._tensors.library import Library


class StartOptions(NamedTuple):
    """How the workers of a pool are started, and how items and results are received.

    Args:
        context: starts processes.
        access: to the tensors of items and results.
        library: of the tensors of items; None: that of each sender.
        pin: pin items, in the workers.
        pin_results: pin results, in this process.
        domain: see `tensorbus.participant`.
    """

    context: BaseContext
    access: Access | None
    library: Library | None
    pin: bool
    pin_results: bool
    domain: str | None


class Unreadable(Failed):
    """The error of an answer that this process could not read."""


class WorkerProcess:
    """One process with one task or batch at most, a queue to the process, and a queue from it.

    Raises:
        Exception: the process could not be started; all its resources are freed.
    """

    def __init__(self, number: int, job: Job, options: StartOptions) -> None:
        self.number = number
        self.tasks: list[Task] = []
        self.ready = False
        self.dead = False
        self.dismissed = False
        self.killed = False
        self.overran = False  # it was killed because its task took too long
        self.given_at = 0.0  # when it got its tasks
        self._given = 0  # number of messages so far
        self._unsure = False  # a shortage prevents a check for unread answers
        self._pending: Pending | None = None  # None: no memory or descriptor for the request
        shared = options.access == "shared"
        self._inbox = Queue(shared=shared, domain=options.domain)
        self._outbox = Queue(
            shared=shared, access=options.access, pin=options.pin_results, domain=options.domain
        )
        try:
            self._start(job, options)
        except BaseException:
            self._discard_queues()
            raise

    def _start(self, job: Job, options: StartOptions) -> None:
        check_importable(options.context, job.function, job.initializer)
        inherited: Job | None = job  # a forked child inherits it without a pickle
        if options.context.get_start_method() == "fork":
            check_room_for_fork()
        else:
            self._inbox.put(job)
            inherited = None
        addresses = self._inbox.address, self._outbox.address
        self._process = options.context.Process(  # type: ignore[attr-defined]
            target=work,
            args=(
                *addresses,
                self._inbox._domain,
                inherited,
                options.access,
                options.library,
                options.pin,
            ),
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
            pending.fileno()  # creates the descriptor, which may fail
            self._pending = pending
        except MemoryError:  # includes OutOfMemory
            pass
        except Closed:
            self.kill()

    @property
    def must_poll(self) -> bool:
        """Whether no descriptor signals the worker's next answer, because of a shortage."""
        return self._pending is None or self._unsure

    @property
    def sources(self) -> list[int]:
        """Descriptors that become readable when there is an answer, or when the worker dies."""
        descriptors = [] if self._pending is None else [self._pending.fileno()]
        return descriptors if self.dead else [*descriptors, self._death.descriptor]

    @property
    def has_died(self) -> bool:
        return bool(wait([self._death.descriptor], 0))

    @property
    def has_unread_answers(self) -> bool:
        """Whether the worker has sent answers that were not read; True if a shortage prevents the
        check."""
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

    def give(self, tasks: list[Task], message: Any) -> None:
        """Sends the tasks, as one message.

        Raises:
            Exception: the message cannot be pickled, or there is no memory for it. The worker has
                no task then.
        """
        self._inbox.put(message)
        self._given += 1
        self.tasks = tasks
        self.given_at = time.monotonic()
        for task in tasks:
            task.tries += 1
            task.given = self.given_at

    def finished(self, answer: Done | Failed) -> list[Task]:
        """The tasks that are done with this answer; none for an answer to an earlier message."""
        if answer.number not in (None, self._given):
            return []  # the tasks of this answer have already failed, with an `Unreadable`
        tasks, self.tasks = self.tasks, []
        return tasks

    def answers(self) -> Iterator[Any]:
        """The answers that have arrived; an `Unreadable` for each answer that cannot be read.

        If a shortage has closed the queue of a worker, the worker is killed, and then replaced like
        any dead worker.
        """
        if self._pending is None:
            self._listen()
        while self._pending is not None:
            try:
                result = self._pending.take()
            except MemoryError as error:  # the answer is delivered again when there is memory
                self._pending.cancel()
                self._pending = None
                yield Unreadable(error)
                return
            except Closed:
                self.kill()
                return
            except Exception as error:
                answer: Any = Unreadable(error)
            else:
                if result is Outcome.CLOSED:
                    self.kill()
                if isinstance(result, Outcome):
                    return
                answer = _read(result)
            self._listen()
            with suppress(InvalidArgument, Closed):  # no item was taken
                self._outbox.task_done()
            yield answer

    def wait_beside(self, descriptor: int) -> None:
        """Waits until the worker dies, or the descriptor is readable."""
        wait([self._death.descriptor, descriptor])

    def dismiss(self) -> None:
        """Ends the worker after its current task; at once if it is not ready for tasks."""
        self.dismissed = True
        if self.ready:
            self._inbox._discard()
        else:
            self.kill()

    def kill(self) -> None:
        self.killed = True
        self._death.kill()

    def reap(self) -> int:
        """Joins the process, and returns its exit code."""
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


def _read(sample: Any) -> Any:
    try:
        return pickler.load(sample)
    except BaseException as error:  # unpickling may run any code, even sys.exit
        return Unreadable(error)


def describe_exit(code: int | None) -> str:
    """An exit code as text, after "died".

    >>> describe_exit(-9), describe_exit(3)
    ('by SIGKILL (exit code -9)', 'with exit code 3')
    """
    if code is None:
        return "for an unknown reason"
    if code < 0:
        with suppress(ValueError):
            return f"by {signal.Signals(-code).name} (exit code {code})"
    return f"with exit code {code}"


def ended_for_shortage(code: int | None) -> bool:
    """Whether the worker ended because it could not join the bus, for lack of resources."""
    return code == os.EX_TEMPFAIL
