"""The workers of a pool: as many as were asked for, and others for those that have died."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

from tensorbus._base.errors import OutOfMemory, WorkerDied
from tensorbus._pools.place import Place
from tensorbus._pools.shortage import is_shortage
from tensorbus._pools.task import copy_of, log
from tensorbus._pools.worker import Job
from tensorbus._pools.worker_process import StartOptions, WorkerProcess

# Seconds between two polls of a worker that cannot be waited for, see `WorkerProcess.must_poll`.
POLL_INTERVAL = 0.05


class Crew:
    """The places of a pool's workers. The pool's thread uses it, except where a method says so."""

    def __init__(self, jobs: list[Job], options: StartOptions) -> None:
        self.size = len(jobs)  # that was asked for last
        self._applied_size = self.size
        self.restarts = 0  # workers that have died in their place
        self._jobs = jobs
        self._options = options
        self._numbers = count()
        # Replaced when it changes: other threads read it.
        self._places = [Place(next(self._numbers), job, options) for job in jobs]
        self._is_short = False  # a shortage keeps some workers from being started
        self._changed = threading.Condition()  # guards `_end`; notified when readiness changes
        self._end: BaseException | None = None  # why no worker will be ready any more

    # Any thread may call these methods.

    def wait_until_ready(self, timeout: float | None) -> bool:
        """Waits until every worker is ready; False after the timeout.

        Raises:
            WorkerDied: a place was given up, see `Place`.
            BaseException: the reason of `end_with`.
        """
        with self._changed:
            self._changed.wait_for(self._has_settled, timeout)
            if self._end is not None:
                raise copy_of(self._end)
            for place in self._staying():
                if place.given_up is not None:
                    raise copy_of(place.given_up)
            return self._all_ready()

    def _has_settled(self) -> bool:
        given_up = any(place.given_up is not None for place in self._staying())
        return self._end is not None or given_up or self._all_ready()

    def _all_ready(self) -> bool:
        return self.counts()[1] >= self.size

    def counts(self) -> tuple[int, int, int]:
        """The number of workers that are alive, of those that are ready, and of their tasks."""
        workers = [worker for _, worker in self.occupied() if not worker.dead]
        ready = sum(worker.ready and not (worker.dismissed or worker.killed) for worker in workers)
        return len(workers), ready, sum(len(worker.tasks) for worker in self.workers())

    def workers(self) -> list[WorkerProcess]:
        return [worker for _, worker in self.occupied()]

    def occupied(self) -> Iterator[tuple[Place, WorkerProcess]]:
        for place in self._places:
            worker = place.worker
            if worker is not None:
                yield place, worker

    def _staying(self) -> list[Place]:
        return [place for place in self._places if not place.leaving]

    def resize(self, size: int) -> None:
        """Sets the number of workers. The pool's thread must be woken for it."""
        with self._changed:
            self.size = size
            self._changed.notify_all()

    def end_with(self, why: BaseException) -> None:
        """No worker will be ready any more: `wait_until_ready` raises the reason."""
        with self._changed:
            self._end = self._end or why
            self._changed.notify_all()

    def notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # Only the pool's thread calls these methods.

    def start_first(self) -> None:
        """Starts the workers.

        Raises:
            OutOfMemory: none could be started.
            Exception: pickling the job raised it.
        """
        self.start_missing()
        error = self._places[0].error
        if error is None or self.workers():
            return
        if not is_shortage(error):
            raise error
        raise OutOfMemory(
            f"no worker of the pool could be started: {error!r}. See the limits of processes, "
            "memory and descriptors (ulimit -u, -v, -n; pids.max and memory.max of the cgroup)"
        ) from error

    def start_missing(self) -> None:
        """Starts workers in empty places, and ends those that are too many.

        Raises:
            WorkerDied: all places were given up.
        """
        if self.size != self._applied_size:
            self._resize()
        if any(place.leaving for place in self._places):
            self._dismiss_leaving()
        if all(place.worker is not None for place in self._places):
            self._is_short = False
            return
        empty = [place for place in self._places if place.pause == 0]
        for place in empty:
            place.start()
        if empty:
            self.notify()
        staying = self._staying()
        if all(place.given_up for place in staying):
            raise staying[-1].given_up or WorkerDied
        short = [place.error for place in staying if place.is_short]
        if short and not self._is_short:
            log.warning(
                "%d of %d workers of a pool cannot be started now (trying again): %r",
                len(short),
                len(staying),
                short[0],
            )
        self._is_short = bool(short)

    def _resize(self) -> None:
        self._applied_size = self.size
        missing = self._applied_size - len(self._staying())
        for place in sorted(self._staying(), key=_use):
            if missing < 0:
                place.leaving = True
                missing += 1
        for place in self._places:  # those that were to leave, and were not dismissed yet
            if missing > 0 and place.leaving and place.worker and not place.worker.dismissed:
                place.leaving = False
                missing -= 1
        if missing > 0:
            job = self._jobs[0]
            new = [Place(next(self._numbers), job, self._options) for _ in range(missing)]
            self._places = [*self._places, *new]

    def _dismiss_leaving(self) -> None:
        for place in self._places:
            worker = place.worker
            if place.leaving and worker and not (worker.tasks or worker.dismissed or worker.dead):
                worker.dismiss()
        if any(place.leaving and place.worker is None for place in self._places):
            self._places = [each for each in self._places if each.worker or not each.leaving]

    def idle(self) -> list[WorkerProcess]:
        """The workers that can be given a task now."""
        return [
            worker
            for place, worker in self.occupied()
            if worker.ready and not (worker.dead or worker.killed or worker.tasks or place.leaving)
        ]

    def sources(self) -> list[int]:
        return [source for worker in self.workers() for source in worker.sources]

    def pauses(self) -> list[float]:
        """Seconds until there is work that no descriptor signals."""
        pauses = [place.pause for place in self._places if place.worker is None]
        pauses += [POLL_INTERVAL for worker in self.workers() if worker.must_poll]
        return [pause for pause in pauses if pause is not None]

    def replace(self, place: Place, *, had_task: bool) -> str:
        """Removes a dead worker, and returns a description of its death."""
        self.restarts += not place.leaving
        end = place.replace(had_task=had_task)
        self.notify()
        return end


def _use(place: Place) -> int:
    """A key by which places leave: those without a ready worker first, then the idle ones."""
    worker = place.worker
    if worker is None or worker.dead or not worker.ready:
        return 0
    return 2 if worker.tasks else 1
