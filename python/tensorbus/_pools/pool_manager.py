"""The workers of a pool, and the thread that gives them tasks."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from multiprocessing.connection import wait
from typing import Any

from tensorbus._base.errors import Closed, Error, OutOfMemory, WorkerDied
from tensorbus._pools.place import Place
from tensorbus._pools.shortage import is_shortage
from tensorbus._pools.task import Task, another, log
from tensorbus._pools.worker import Done, Job, Ready
from tensorbus._pools.worker_process import Unread, Ways, WorkerProcess

# Seconds until a worker is asked again for which there was no descriptor or memory to wait with.
_PAUSE_OF_DEAF = 0.05


class PoolManager:
    """Gives each task to one worker that has none, and replaces the dead, in one thread.

    Under the lock: the tasks that wait, and whether more may come. The places are the thread's.

    Raises:
        OutOfMemory: not one worker could be started.
        Exception: whatever pickling the job raises.
    """

    def __init__(self, jobs: list[Job], ways: Ways, retries: int) -> None:
        self._process = os.getpid()
        self._retries = retries
        self._lock = threading.Lock()
        self._tasks: deque[Task] = deque()
        self._refusal: BaseException | None = None  # why no more tasks are taken
        self._failure: BaseException | None = None  # what has ended the pool
        self._cancels = False  # the tasks that no worker was given
        self._finishes = False  # at the end of the program
        self._killed = False
        self._is_short = False  # are there workers that cannot be started now?
        self._ended = threading.Event()  # a join that Ctrl-C ends takes the thread for stopped
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._places = [Place(number, job, ways) for number, job in enumerate(jobs)]
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

    # For any thread.

    def submit(self, item: Any) -> Future[Any]:
        task = Task(item)
        with self._lock:
            if self._refusal is not None:
                raise another(self._refusal)
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
        self._cancels = self._cancels or cancel
        self._refuse(Closed("the worker pool is closed"))
        self._finishes = self._finishes or not wait
        if wait:
            self._wait_for_the_end()
        return wait

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
                self._cancel_waiting()
                self._give_tasks()  # drops those that were cancelled, which may be the last ones
                if self._is_over():
                    break
                self._start_workers()
                self._look_after(wait([self._wakeup, *self._sources()], self._pause()))
        except BaseException as error:
            self._killed = True
            self._failure = error
            self._refuse(error)
        finally:
            self._end_workers()

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
        """Seconds until there is something to do without a word of anybody."""
        pauses = [place.pause for place in self._places]
        pauses += [_PAUSE_OF_DEAF for worker in self._workers() if worker.deaf]
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
                "%d of %d workers of a pool cannot be started now, and are tried again: %r",
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
        for task in waiting:  # without the lock: callbacks of futures may do anything
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
                except BaseException as error:  # it cannot be pickled, or there is no memory for it
                    task.fail(error)

    def _look_after(self, readable: list[Any]) -> None:
        if self._wakeup in readable:
            os.eventfd_read(self._wakeup)
        for place, worker in [*self._occupied()]:
            if not worker.deaf and {*worker.sources}.isdisjoint(readable):
                continue
            for answer in worker.answers():
                self._hear(place, worker, answer)
            worker.dead = worker.dead or worker.has_died
            if worker.dead and not worker.owes:
                self._replace(place, worker)

    def _hear(self, place: Place, worker: WorkerProcess, answer: Any) -> None:
        if isinstance(answer, Ready):
            worker.ready = True
            place.ready()
        elif not worker.ready:
            if not isinstance(answer, Unread):
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
            times = f", the last of {task.tries} that tried" if task.tries > 1 else ""
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
            task.fail(another(why))
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
            os.eventfd_read(self._wakeup)  # a thread may have called kill()
            if self._killed:
                for each in self._workers():
                    each.kill()
