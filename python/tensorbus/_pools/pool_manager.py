"""The workers of a pool, and the thread that gives them tasks."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

from tensorbus._base.errors import Closed, Error, OutOfMemory, WorkerDied
from tensorbus._pools.place import Place
from tensorbus._pools.shortage import is_shortage
from tensorbus._pools.task import Task, copy_of, log
from tensorbus._pools.worker import Done, Job, Ready
from tensorbus._pools.worker_process import StartOptions, Unreadable, WorkerProcess

# Seconds between two polls of a worker that cannot be waited for, see `WorkerProcess.must_poll`.
_POLL_INTERVAL = 0.05


class PoolManager:
    """A thread that gives each task to one idle worker, and replaces dead workers.

    The lock guards the waiting tasks and the refusal of new tasks. Only the thread uses the places.

    Raises:
        OutOfMemory: no worker could be started.
        Exception: pickling the job raised it.
    """

    def __init__(self, jobs: list[Job], options: StartOptions, retries: int) -> None:
        self._process = os.getpid()
        self._retries = retries
        self._lock = threading.Lock()
        self._tasks: deque[Task] = deque()
        self._refusal: BaseException | None = None  # why new tasks are refused
        self._failure: BaseException | None = None  # the error that ended the pool
        self._cancels = False  # cancel the tasks that no worker has
        self._finishes = False  # at the end of the program, wait for the tasks
        self._killed = False
        self._is_short = False  # a shortage keeps some workers from being started
        # An event is needed: Python counts a thread as stopped after Ctrl-C has interrupted a join.
        self._ended = threading.Event()
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._places = [Place(number, job, options) for number, job in enumerate(jobs)]
        self._thread = threading.Thread(target=self._run, name="tensorbus pool", daemon=True)
        try:
            self._start_first()
            self._thread.start()
        except BaseException:
            self._killed = True
            self._end_workers()
            raise

    def _start_first(self) -> None:
        self._start_workers()
        error = self._places[0].error
        if error is None or self._workers():
            return
        if not is_shortage(error):
            raise error
        raise OutOfMemory(
            f"no worker of the pool could be started: {error!r}. See the limits of processes, "
            "memory and descriptors (ulimit -u, -v, -n; pids.max and memory.max of the cgroup)"
        ) from error

    # Any thread may call these methods.

    def submit(self, item: Any) -> Future[Any]:
        task = Task(item)
        with self._lock:
            if self._refusal is not None:
                raise copy_of(self._refusal)
            self._tasks.append(task)
            self._wake()
        return task.future

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
        with self._lock:
            self._refusal = self._refusal or why
            self._wake()

    def _wake(self) -> None:
        if not self._ended.is_set():
            os.eventfd_write(self._wakeup, 1)

    # Only the pool's thread calls these methods.

    def _run(self) -> None:
        try:
            while not self._killed:
                self._cancel_waiting()
                self._give_tasks()  # before _is_over(): it drops cancelled tasks
                if self._is_over():
                    break
                self._start_workers()
                self._handle(self._wait())
        except BaseException as error:
            self._killed = True
            self._failure = error
            self._refuse(error)
        finally:
            self._end_workers()

    def _wait(self) -> list[Any]:
        sources: list[Any] = [self._wakeup, *self._sources()]
        try:
            return wait(sources, self._pause())
        except OSError as error:  # of poll(): RLIMIT_NOFILE is now below the number of descriptors
            if error.errno != errno.EINVAL:
                raise
            time.sleep(_POLL_INTERVAL)
            return sources

    def _workers(self) -> list[WorkerProcess]:
        return [worker for _, worker in self._occupied()]

    def _occupied(self) -> Iterator[tuple[Place, WorkerProcess]]:
        for place in self._places:
            if place.worker is not None:
                yield place, place.worker

    def _is_over(self) -> bool:
        with self._lock:
            return (
                self._refusal is not None
                and all(task.future.cancelled() for task in self._tasks)
                and not any(worker.task for worker in self._workers())
            )

    def _sources(self) -> list[int]:
        return [source for worker in self._workers() for source in worker.sources]

    def _pause(self) -> float | None:
        """Seconds until there is work that no descriptor signals."""
        pauses = [place.pause for place in self._places]
        pauses += [_POLL_INTERVAL for worker in self._workers() if worker.must_poll]
        return min((pause for pause in pauses if pause is not None), default=None)

    def _start_workers(self) -> None:
        for place in self._places:
            if place.pause == 0:
                place.start()
        if all(place.given_up for place in self._places):
            raise self._places[-1].given_up or WorkerDied
        short = [place.error for place in self._places if place.is_short]
        if short and not self._is_short:
            log.warning(
                "%d of %d workers of a pool cannot be started now (trying again): %r",
                len(short),
                len(self._places),
                short[0],
            )
        self._is_short = bool(short)

    def _cancel_waiting(self) -> None:
        if not self._cancels:
            return
        with self._lock:
            waiting = [task for task in self._tasks if task.tries == 0]
            self._tasks = deque(task for task in self._tasks if task.tries > 0)
        for task in waiting:  # without the lock: it runs callbacks of futures
            task.cancel()

    def _give_tasks(self) -> None:
        for worker in self._workers():
            while worker.ready and not worker.dead and worker.task is None:
                with self._lock:
                    task = self._tasks.popleft() if self._tasks else None
                if task is None:
                    return
                if not task.begin():
                    continue
                try:
                    worker.give(task)
                except BaseException as error:  # the item cannot be pickled, or memory is short
                    task.fail(error)

    def _handle(self, readable: list[Any]) -> None:
        if self._wakeup in readable:
            with suppress(BlockingIOError):
                os.eventfd_read(self._wakeup)
        for place, worker in [*self._occupied()]:
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
        elif not worker.ready:
            if not isinstance(answer, Unreadable):
                raise answer.error()
        elif (task := worker.finished(answer)) is not None:
            if isinstance(answer, Done):
                task.succeed(answer.value)
            else:
                task.fail(answer.error())

    def _replace(self, place: Place, worker: WorkerProcess) -> None:
        end = place.replace()
        if worker.task is not None:
            self._try_again(worker.task, end)

    def _try_again(self, task: Task, end: str) -> None:
        if task.tries > self._retries:
            times = f", the last of {task.tries} attempts" if task.tries > 1 else ""
            return task.fail(WorkerDied(f"{end} at this task{times}"))
        with self._lock:
            self._tasks.appendleft(task)

    def _end_workers(self) -> None:
        for worker in self._workers():
            worker.kill() if self._killed else worker.dismiss()
        with self._lock:
            left = [*self._tasks, *(worker.task for worker in self._workers() if worker.task)]
            self._tasks.clear()
        for task in left:
            why = self._failure or self._refusal or Error("the worker pool has no thread")
            task.fail(copy_of(why))
        for place, worker in [*self._occupied()]:
            self._wait_for_end_of(worker)
            place.worker = None
            worker.reap()
        with self._lock:
            self._ended.set()
            os.close(self._wakeup)

    def _wait_for_end_of(self, worker: WorkerProcess) -> None:
        while True:
            worker.wait_beside(self._wakeup)
            if worker.has_died:
                return
            os.eventfd_read(self._wakeup)  # another thread may have called kill()
            if self._killed:
                for each in self._workers():
                    each.kill()
