"""The thread of a pool, which gives the waiting tasks to the workers."""

from __future__ import annotations

import errno
import math
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from tensorbus._base.errors import Closed, Error, RunTimeout, Timeout, WorkerDied
from tensorbus._base.participant import participant
from tensorbus._base.stats import PoolStats
from tensorbus._pools.answers import Done, Ready
from tensorbus._pools.batches import Batch, row, stacked
from tensorbus._pools.counts import Counts
from tensorbus._pools.crew import POLL_INTERVAL, Crew
from tensorbus._pools.place import Place
from tensorbus._pools.rules import Rules
from tensorbus._pools.task import Task, copy_of, log
from tensorbus._pools.waiting import Waiting
from tensorbus._pools.worker import Job, Results
from tensorbus._pools.worker_process import StartOptions, Unreadable, WorkerProcess


class PoolManager:
    """A thread that gives each task to one idle worker, and replaces dead workers.

    Raises:
        OutOfMemory: no worker could be started.
        Exception: pickling the job raised it.
    """

    def __init__(self, jobs: list[Job], options: StartOptions, rules: Rules) -> None:
        self._process = os.getpid()
        self._rules = rules
        self._mixed = options.library is not None
        self._home = participant(options.domain)
        self._waiting = Waiting(rules.limits, rules.max_waiting)
        self._crew = Crew(jobs, options)
        self._counts = Counts()
        self._failure: BaseException | None = None  # the error that ended the pool
        self._cancels = False  # cancel the tasks that no worker has
        self._finishes = False  # at the end of the program, wait for the tasks
        self._killed = False
        # An event is needed: Python counts a thread as stopped after Ctrl-C has interrupted a join.
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tensorbus pool", daemon=True)
        try:
            self._crew.start_first()
            self._thread.start()
        except BaseException:
            self._killed = True
            self._end_workers()
            raise

    # Any thread may call these methods.

    @property
    def size(self) -> int:
        return self._crew.size

    @property
    def stats(self) -> PoolStats:
        alive, ready, running = self._crew.counts()
        return PoolStats(
            workers=self._crew.size,
            alive=alive,
            ready=ready,
            restarts=self._crew.restarts,
            waiting=len(self._waiting),
            running=running,
            **self._counts.fields(),
        )

    def submit(self, item: Any, priority: int = 0, timeout: float | None = None) -> Future[Any]:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        try:
            return self._waiting.submit(item, priority, deadline)
        except queue.Full:
            self._counts.refused()
            raise

    def submit_in_time(self, item: Any, deadline: float) -> Future[Any]:
        """Waits for room until a time of the monotonic clock; in a callback it does not wait.

        Raises:
            Timeout: there was no room in time.
            queue.Full: there is no room, in a callback.
        """
        if not self._may_wait():
            return self._waiting.submit(item)
        try:
            return self._waiting.submit(item, room_deadline=deadline)
        except queue.Full:
            raise Timeout("not all items could be submitted in time") from None

    def wait_until_ready(self, timeout: float | None) -> bool:
        """See `WorkerPool.ready`. In the pool's own thread it does not wait."""
        return self._crew.wait_until_ready(timeout if self._may_wait() else 0)

    def resize(self, size: int) -> None:
        if (why := self._waiting.refusal) is not None:
            raise copy_of(why)
        self._crew.resize(size)
        self._waiting.wake()

    def shut_down(self, wait: bool, cancel: bool) -> bool:
        """Refuses new tasks. The workers end when all tasks are done.

        Args:
            wait: wait for the workers, unless the caller is a callback of a future.
            cancel: cancel the tasks that no worker has.

        Returns:
            True if it waited: all workers have ended.
        """
        wait = wait and self._may_wait()
        self._cancels = self._cancels or cancel
        self._refuse(Closed("the worker pool is closed"))
        self._finishes = self._finishes or not wait
        if wait:
            self._wait_for_the_end()
        return wait

    def end_with_the_process(self) -> None:
        """Kills the workers; after a `shut_down` that did not wait, waits for the tasks instead."""
        if self._process != os.getpid():
            return
        if self._finishes:
            self.shut_down(wait=True, cancel=False)
        else:
            self.kill()

    def kill(self) -> bool:
        """Kills the workers during their tasks. It waits, and returns True, like `shut_down`."""
        self._killed = True
        self._refuse(Closed("the worker pool was terminated"))
        wait = self._may_wait()
        if wait:
            self._wait_for_the_end()
        return wait

    def _may_wait(self) -> bool:
        """False in the pool's own thread, which runs the callbacks of futures."""
        return threading.current_thread() is not self._thread

    def _wait_for_the_end(self) -> None:
        self._ended.wait()
        self._thread.join()

    def _refuse(self, why: BaseException) -> None:
        self._waiting.refuse(why)
        self._crew.end_with(why)

    # Only the pool's thread calls these methods.

    def _run(self) -> None:
        try:
            while not self._killed:
                self._drop_cancelled()
                self._give_tasks()
                if self._is_over():
                    break
                self._crew.start_missing()
                self._handle(self._wait())
                self._end_overruns()
        except BaseException as error:
            self._killed = True
            self._failure = error
            self._refuse(error)
        finally:
            self._end_workers()

    def _wait(self) -> list[Any]:
        sources: list[Any] = [self._waiting.wakeup, *self._crew.sources()]
        try:
            return wait(sources, self._pause())
        except OSError as error:  # of poll(): RLIMIT_NOFILE is now below the number of descriptors
            if error.errno != errno.EINVAL:
                raise
            time.sleep(POLL_INTERVAL)
            return sources

    def _pause(self) -> float | None:
        """Seconds until there is work that no descriptor signals."""
        next_time = self._waiting.next_deadline()
        if len(self._waiting) > 0 and self._crew.idle():
            next_time = min(next_time, self._waiting.due())
        pauses = self._crew.pauses()
        next_time = min(next_time, self._next_overrun())
        if next_time < math.inf:
            pauses.append(max(next_time - time.monotonic(), 0.0))
        return min(pauses, default=None)

    def _is_over(self) -> bool:
        return (
            self._waiting.refusal is not None
            and len(self._waiting) == 0
            and not any(worker.tasks for worker in self._crew.workers())
        )

    def _drop_cancelled(self) -> None:
        cancelled = self._waiting.take_cancelled()
        if self._cancels:
            cancelled += self._waiting.take_unbegun()
        for task in cancelled:
            self._counts.cancelled()
            task.cancel()

    def _drop_expired(self) -> None:
        for task in self._waiting.take_expired():
            if self._begin(task):
                self._counts.timed_out()
                again = " again" if task.tries else ""
                task.fail(Timeout(f"no worker has begun this item{again} in time"))

    def _begin(self, task: Task) -> bool:
        """Begins a task, see `Task.begin`."""
        if task.begin():
            return True
        self._counts.cancelled()
        return False

    def _give_tasks(self) -> None:
        self._drop_expired()
        if len(self._waiting) == 0:
            return
        for worker in self._crew.idle():
            while not worker.tasks and self._waiting.due() <= time.monotonic():
                if tasks := [task for task in self._waiting.take() if self._begin(task)]:
                    self._give(worker, tasks)
                self._drop_expired()  # stacking a batch takes time

    def _give(self, worker: WorkerProcess, tasks: list[Task]) -> None:
        try:
            worker.give(tasks, self._message_for(tasks))
        except BaseException as error:  # an item cannot be pickled, or memory is short
            self._fail_or_part(tasks, partial(_same, error))
        else:
            self._counts.given(tasks)

    def _message_for(self, tasks: list[Task]) -> Any:
        if self._rules.limits.size is None:
            return tasks[0].item
        items = [task.item for task in tasks]
        return Batch(stacked(items, self._home, mixed=self._mixed), len(tasks))

    def _fail_or_part(self, tasks: list[Task], error: Callable[[], BaseException]) -> None:
        """Handles tasks that no worker could read: each is sent again alone, or fails if it was."""
        if len(tasks) > 1:
            self._waiting.put_back(tasks)
        else:
            self._fail(tasks, error)

    def _fail(self, tasks: list[Task], error: Callable[[], BaseException]) -> None:
        """Fails each task with an exception of its own."""
        for task in tasks:
            self._counts.failed()
            task.fail(error())

    def _handle(self, readable: list[Any]) -> None:
        if self._waiting.wakeup in readable:
            self._waiting.clear_wakeup()
        for place, worker in [*self._crew.occupied()]:
            if not worker.must_poll and {*worker.sources}.isdisjoint(readable):
                continue
            for answer in worker.answers():
                self._handle_answer(place, worker, answer)
            worker.dead = worker.dead or worker.has_died
            if worker.dead and not worker.has_unread_answers:
                self._replace(place, worker)

    def _handle_answer(self, place: Place, worker: WorkerProcess, answer: Any) -> None:
        if isinstance(answer, Ready):
            worker.ready = True
            place.ready()
            self._crew.notify()
        elif not worker.ready:
            if not isinstance(answer, Unreadable):
                raise answer.error()
        elif tasks := worker.finished(answer):
            place.finished()
            self._end_tasks(tasks, answer)

    def _end_tasks(self, tasks: list[Task], answer: Any) -> None:
        if not isinstance(answer, Done):
            if answer.unread:
                for task in tasks:
                    task.tries -= 1
                self._fail_or_part(tasks, answer.error)
            else:
                self._counts.answered(tasks, time.monotonic())
                self._fail(tasks, answer.error)
            return
        self._counts.answered(tasks, time.monotonic())
        for index, task in enumerate(tasks):
            self._end_task(task, answer.value, index)

    def _end_task(self, task: Task, value: Any, index: int) -> None:
        try:
            result = row(value.value, index) if isinstance(value, Results) else value
        except BaseException as error:
            self._fail([task], partial(_same, error))
        else:
            self._counts.succeeded()
            task.succeed(result)

    def _running(self) -> list[WorkerProcess]:
        """The workers that have tasks, and were not killed."""
        return [worker for worker in self._crew.workers() if worker.tasks and not worker.killed]

    def _next_overrun(self) -> float:
        """When the time of a worker's task is over; inf if there is none."""
        if (limit := self._rules.run_timeout) is None:
            return math.inf
        return min((worker.given_at + limit for worker in self._running()), default=math.inf)

    def _end_overruns(self) -> None:
        """Kills the workers whose tasks take too long. Their deaths are handled like any other.

        A worker is left alone that has answered, or has died by itself, while this thread was busy.
        """
        if (limit := self._rules.run_timeout) is None:
            return
        now = time.monotonic()
        for worker in self._running():
            is_late = now >= worker.given_at + limit
            if is_late and not (worker.has_died or worker.has_unread_answers):
                worker.overran = True
                worker.kill()

    def _replace(self, place: Place, worker: WorkerProcess) -> None:
        tasks, worker.tasks = worker.tasks, []
        end = self._crew.replace(place, had_task=bool(tasks))
        if worker.overran:
            self._end_overrun(worker, tasks)
            return
        again, failed = self._divided(tasks)
        if tasks:
            counts = len(tasks), len(again)
            log.warning("%s, with %d items, of which %d are tried again", end, *counts)
        elif worker.ready and not place.leaving:
            log.warning("%s without an item; another worker is started in its place", end)
        for task in failed:
            times = f", the last of {task.tries} attempts" if task.tries > 1 else ""
            self._fail([task], partial(WorkerDied, f"{end} at this task{times}"))
        self._waiting.put_back(again)

    def _divided(self, tasks: list[Task]) -> tuple[list[Task], list[Task]]:
        """Tasks that are tried again, and those that have no attempt or no time left."""
        now = time.monotonic()
        again: list[Task] = []
        failed: list[Task] = []
        for task in tasks:
            may_begin = task.tries <= self._rules.retries and now < task.deadline
            (again if may_begin else failed).append(task)
        return again, failed

    def _end_overrun(self, worker: WorkerProcess, tasks: list[Task]) -> None:
        """Fails the task of a worker that was killed for it, and puts those of a batch back."""
        why = f"{worker.name} was ended after run_timeout={self._rules.run_timeout:g} s"
        again, failed = self._divided(tasks) if len(tasks) > 1 else ([], tasks)
        if tasks:
            log.warning(
                "%s, with %d items, of which %d are tried again", why, len(tasks), len(again)
            )
        for task in failed:
            self._counts.overran()
            what = "at this task" if len(tasks) == 1 else f"at a batch of {len(tasks)} items"
            self._fail([task], partial(RunTimeout, f"{why} {what}"))
        self._waiting.put_back(again)

    def _end_workers(self) -> None:
        for worker in self._crew.workers():
            worker.kill() if self._killed else worker.dismiss()
        left = [task for worker in self._crew.workers() for task in worker.tasks]
        left += self._waiting.take_all()
        why = self._failure or self._waiting.refusal or Error("the worker pool has no thread")
        self._fail([task for task in left if self._begin(task)], lambda: copy_of(why))
        for place, worker in [*self._crew.occupied()]:
            self._wait_for_end_of(worker)
            place.worker = None
            worker.reap()
        self._ended.set()
        self._waiting.close()

    def _wait_for_end_of(self, worker: WorkerProcess) -> None:
        while True:
            worker.wait_beside(self._waiting.wakeup)
            if worker.has_died:
                return
            self._waiting.clear_wakeup()  # another thread may have called kill()
            if self._killed:
                for each in self._crew.workers():
                    each.kill()


def _same(error: BaseException) -> BaseException:
    return error
