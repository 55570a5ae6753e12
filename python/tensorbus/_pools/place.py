"""A place in a worker pool: it has one worker at a time, and replaces a worker that has died."""

from __future__ import annotations

import time

from tensorbus._base.errors import WorkerDied
from tensorbus._pools.shortage import is_shortage
from tensorbus._pools.task import log
from tensorbus._pools.worker import Job
from tensorbus._pools.worker_process import (
    StartOptions,
    WorkerProcess,
    describe_exit,
    ended_for_shortage,
)

# Seconds before the next attempt if a worker could not be started, or died early: before its first
# task, and within the longest pause after it was ready. Each pause is twice as long as the previous
# pause, up to the longest. A worker in this place that does not die early ends the row.
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
# A place is given up after this number of deaths in a row. Shortages do not count as deaths.
_MAX_DEATHS = 6


class Place:
    """Starts one worker at a time. One thread uses it."""

    def __init__(self, number: int, job: Job, options: StartOptions) -> None:
        self.number = number
        self.worker: WorkerProcess | None = None
        self.error: Exception | None = None  # why no worker could be started
        self.given_up: WorkerDied | None = None
        self.leaving = False  # it gets no further task, and no other worker
        self._job = job
        self._options = options
        self._deaths = 0  # in a row, of workers that were never ready
        self._failures = 0  # early deaths and shortages, in a row
        self._ready_at = 0.0  # time at which the worker was ready
        self._has_finished = False  # the worker has finished a task
        self._due = 0.0  # time of the next attempt

    @property
    def is_short(self) -> bool:
        """Whether there is no worker because of a shortage, see `is_shortage`."""
        return self.worker is None and self.error is not None and is_shortage(self.error)

    @property
    def pause(self) -> float | None:
        """Seconds until the next attempt to start a worker; None if no attempt is needed."""
        if self.worker is not None or self.given_up is not None or self.leaving:
            return None
        return max(self._due - time.monotonic(), 0.0)

    def start(self) -> None:
        """Starts a worker, or records the error and schedules the next attempt.

        Raises:
            Exception: no later attempt can succeed, for example because the function cannot be
                pickled.
        """
        try:
            self.worker = WorkerProcess(self.number, self._job, self._options)
        except (OSError, EOFError, MemoryError, RuntimeError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.error = error
        if is_shortage(error):
            self._put_off()
        elif isinstance(error, RuntimeError):
            raise error
        else:  # for example, the fork server has died
            self._count_death(f"worker {self.number} could not be started: {error!r}")

    def ready(self) -> None:
        """The worker is ready for tasks."""
        self._deaths = 0
        self.error = None
        self._ready_at = time.monotonic()
        self._has_finished = False

    def finished(self) -> None:
        """The worker has finished a task."""
        self._has_finished = True

    def replace(self, *, had_task: bool) -> str:
        """Removes the dead worker from its place, and returns a description of its death."""
        assert self.worker is not None
        worker, self.worker = self.worker, None
        code = worker.reap()
        end = f"{worker.name} died {describe_exit(code)}"
        if self.leaving:
            return end
        lived = time.monotonic() - self._ready_at > _LONGEST_PAUSE
        if worker.ready and (had_task or self._has_finished or lived):
            self._failures, self._due = 0, 0.0
        elif worker.ready:
            self._put_off()
        elif ended_for_shortage(code):
            self._fail(MemoryError(f"{worker.name} could not join the bus"))
        else:
            self._count_death(f"{end} while it started")
        return end

    def _count_death(self, end: str) -> None:
        self._deaths += 1
        self._put_off()
        if self._deaths < _MAX_DEATHS:
            log.warning("%s; another worker is started in its place", end)
            return
        log.error("%s, like the %d before it; no worker replaces it", end, self._deaths - 1)
        self.given_up = WorkerDied(f"{end}, like the {self._deaths - 1} before it")

    def _put_off(self) -> None:
        pause = min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 16)  # 2**1024 does not fit a float
        self._due = time.monotonic() + pause
