"""The processes of a worker pool, and the thread that gives them tasks."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any

from tensorbus._base.arguments import Access
from tensorbus._base.errors import Closed, Error, InvalidArgument, WorkerDied
from tensorbus._core import Outcome
from tensorbus._pickling import pickler
from tensorbus._pools.death import Death
from tensorbus._pools.worker import Done, Failed, Job, Ready, work
from tensorbus._queues.queue import Queue


class Task:
    def __init__(self, item: Any) -> None:
        self.item = item
        self.future: Future[Any] = Future()
        self.tries = 0
        self._begun = False

    def begin(self) -> bool:
        """False: it was cancelled. True once, it cannot be any more."""
        self._begun = self._begun or self.future.set_running_or_notify_cancel()
        return self._begun

    def fail(self, error: BaseException) -> None:
        if self.begin():
            self.future.set_exception(error)


class Worker:
    """One process, with a queue to it and one from it. Has one task at most."""

    def __init__(
        self,
        number: int,
        job: Job,
        context: BaseContext,
        access: Access | None,
        domain: str | None,
    ) -> None:
        self.number = number
        self.job = job
        self.task: Task | None = None
        self.ready = False
        self.dead = False
        self._given = 0
        self._inbox = Queue(shared=access == "shared", domain=domain)
        self._outbox = Queue(shared=access == "shared", domain=domain)
        self._outbox._receive_with(access)
        inherited: Job | None = job  # by a child that is forked, as it is
        if context.get_start_method() != "fork":
            self._inbox.put(job)
            inherited = None
        self._process = context.Process(  # type: ignore[attr-defined]
            target=work,
            args=(
                self._inbox.address,
                self._outbox.address,
                self._inbox._domain,
                inherited,
                access,
            ),
            name=f"worker {number}",
        )
        self._process.start()
        self._death = Death(self._process)
        self._listen()

    def _listen(self) -> None:
        self._pending = self._outbox._here.start_get()

    @property
    def sources(self) -> list[int]:
        """Descriptors that are readable when there is something to look after."""
        return [self._pending.fileno(), *([] if self.dead else [self._death.descriptor])]

    @property
    def has_died(self) -> bool:
        return bool(wait([self._death.descriptor], 0))

    @property
    def owes(self) -> bool:
        """Has it said what we have not heard yet?"""
        return self._outbox.stats.unfinished > 0

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
        """What it has said. What cannot be read is the error of that."""
        while (found := self._taken()) is not Outcome.TIMED_OUT:
            self._listen()
            with suppress(InvalidArgument):  # an answer there was no memory to read comes again
                self._outbox.task_done()
            yield found

    def _taken(self) -> Any:
        try:
            found = self._pending.take()
            if found is Outcome.TIMED_OUT:
                return found
            if isinstance(found, Outcome):
                raise Closed("the results of a worker are closed")
            return pickler.load(found)
        except Exception as error:
            return Failed(error)

    def wait_beside(self, descriptor: int) -> None:
        """For its death, or until the descriptor is readable."""
        wait([self._death.descriptor, descriptor])

    def dismiss(self) -> None:
        """It ends when it has done what it is at."""
        self._inbox._discard()

    def kill(self) -> None:
        self._death.bring_about()

    def reap(self) -> str:
        """Waits for its end. How it ended, in words."""
        self._process.join()
        code = self._process.exitcode
        self._pending.cancel()
        self._inbox._discard()
        self._outbox._discard()
        self._death.close()
        if code is None:
            return "for an unknown reason"
        if code < 0:
            with suppress(ValueError):
                return f"by {signal.Signals(-code).name} (exit code {code})"
        return f"with exit code {code}"


class PoolManager:
    """Gives each task to one worker that has none, and replaces the dead, in one thread.

    Under the lock: the tasks that wait, and whether more may come. The workers are the thread's.
    """

    def __init__(
        self,
        jobs: list[Job],
        context: BaseContext,
        retries: int,
        access: Access | None,
        domain: str | None,
    ) -> None:
        self._process = os.getpid()
        self._context = context
        self._retries = retries
        self._access = access
        self._domain = domain
        self._lock = threading.Lock()
        self._tasks: deque[Task] = deque()
        self._refusal: BaseException | None = None  # why no more tasks are taken
        self._finishes = False  # at the end of the program
        self._killed = False
        self._ended = threading.Event()  # a join that Ctrl-C ends takes the thread for stopped
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._workers: list[Worker] = []
        try:
            for number, job in enumerate(jobs):
                self._workers.append(Worker(number, job, context, access, domain))
        except BaseException:
            self._killed = True
            self._end_workers()
            raise
        self._thread = threading.Thread(target=self._run, name="tensorbus pool", daemon=True)
        self._thread.start()

    # For any thread.

    def submit(self, item: Any) -> Future[Any]:
        task = Task(item)
        with self._lock:
            if self._refusal is not None:
                raise _again(self._refusal)
            self._tasks.append(task)
            self._wake()
        return task.future

    def shut_down(self, wait: bool, cancel: bool) -> bool:
        """Takes no more tasks. The workers end when those it has are done.

        Args:
            wait: for that, unless a callback of a future calls it.
            cancel: the tasks that no worker was given.

        Returns:
            Have the workers ended?
        """
        wait = wait and self._may_wait()
        self._refuse(Closed("the worker pool is closed"))
        self._finishes = self._finishes or not wait
        if cancel:
            self._cancel_waiting()
        if wait:
            self._wait_for_the_end()
        return wait

    def _cancel_waiting(self) -> None:
        with self._lock:
            waiting = [task for task in self._tasks if task.tries == 0]
            self._tasks = deque(task for task in self._tasks if task.tries > 0)
            self._wake()
        for task in waiting:  # without the lock: callbacks of futures may do anything
            task.future.cancel()
            task.begin()

    def end_with_the_process(self) -> None:
        """Kills the workers. After a shutdown that did not wait, it waits for what they have."""
        if self._process != os.getpid():
            return
        if self._finishes:
            self.shut_down(wait=True, cancel=False)
        else:
            self.kill()

    def kill(self) -> bool:
        """Ends the workers, whatever they are at. Waits and returns as `shut_down` does."""
        self._killed = True
        self._refuse(Closed("the worker pool was terminated"))
        wait = self._may_wait()
        if wait:
            self._wait_for_the_end()
        return wait

    def _may_wait(self) -> bool:
        """Callbacks of futures run in the thread that would be waited for."""
        return threading.current_thread() is not self._thread

    def _wait_for_the_end(self) -> None:
        self._ended.wait()
        self._thread.join()

    def _refuse(self, why: BaseException) -> None:
        with self._lock:
            self._refusal = self._refusal or why
            self._wake()

    def _wake(self) -> None:
        if not self._ended.is_set():
            os.eventfd_write(self._wakeup, 1)

    # For the thread.

    def _run(self) -> None:
        try:
            while not self._killed:
                self._give_tasks()  # drops those that were cancelled, which may be the last ones
                if self._is_over():
                    break
                self._look_after(wait([self._wakeup, *self._sources()]))
        except BaseException as error:
            self._killed = True
            self._refuse(error)
        finally:
            self._end_workers()

    def _is_over(self) -> bool:
        with self._lock:
            return (
                self._refusal is not None
                and not self._tasks
                and not any(worker.task for worker in self._workers)
            )

    def _sources(self) -> list[int]:
        return [source for worker in self._workers for source in worker.sources]

    def _give_tasks(self) -> None:
        for worker in self._workers:
            while worker.ready and not worker.dead and worker.task is None:
                with self._lock:
                    task = self._tasks.popleft() if self._tasks else None
                if task is None:
                    return
                if not task.begin():
                    continue
                try:
                    worker.give(task)
                except Exception as error:  # it cannot be pickled, or there is no memory for it
                    task.fail(error)

    def _look_after(self, readable: list[Any]) -> None:
        if self._wakeup in readable:
            os.eventfd_read(self._wakeup)
        for worker in [each for each in self._workers if not {*each.sources}.isdisjoint(readable)]:
            for answer in worker.answers():
                self._hear(worker, answer)
            worker.dead = worker.dead or worker.has_died
            if worker.dead and not worker.owes:
                self._replace(worker)

    def _hear(self, worker: Worker, answer: Any) -> None:
        if isinstance(answer, Ready):
            worker.ready = True
        elif not worker.ready:
            raise answer.error()
        elif (task := worker.finished(answer)) is not None:
            if isinstance(answer, Done):
                task.future.set_result(answer.value)
            else:
                task.fail(answer.error())

    def _replace(self, worker: Worker) -> None:
        self._workers.remove(worker)
        end = f"{worker.name} died {worker.reap()}"
        if not worker.ready:
            raise WorkerDied(f"{end} while it started")
        if worker.task is not None:
            self._try_again(worker.task, end)
        self._workers.append(
            Worker(worker.number, worker.job, self._context, self._access, self._domain)
        )

    def _try_again(self, task: Task, end: str) -> None:
        if task.tries > self._retries:
            times = f", the last of {task.tries} that tried" if task.tries > 1 else ""
            return task.fail(WorkerDied(f"{end} at this task{times}"))
        with self._lock:
            self._tasks.appendleft(task)

    def _end_workers(self) -> None:
        for worker in self._workers:
            worker.kill() if self._killed else worker.dismiss()
        with self._lock:
            left = [*self._tasks, *(worker.task for worker in self._workers if worker.task)]
            self._tasks.clear()
        for task in left:
            task.fail(_again(self._refusal or Error("the worker pool has no thread")))
        while self._workers:
            worker = self._workers[-1]
            worker.wait_beside(self._wakeup)
            if worker.has_died:
                self._workers.pop().reap()
                continue
            os.eventfd_read(self._wakeup)  # somebody may have lost patience
            if self._killed:
                for each in self._workers:
                    each.kill()
        with self._lock:
            self._ended.set()
            os.close(self._wakeup)


def _again(error: BaseException) -> BaseException:
    """The same for another caller or future: an exception keeps the frames it is raised through.

    >>> class Missing(Exception):
    ...     def __init__(self, name):
    ...         super().__init__(f"no {name}")
    >>> _again(Missing("model"))
    Missing('no model')
    """
    try:
        another = copy(error)
    except Exception:  # it cannot be made from the arguments that it keeps
        return error.with_traceback(None)
    another.args, another.__cause__ = error.args, error.__cause__
    return another
