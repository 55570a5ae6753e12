"""A place in a worker pool: one worker after the other, with pauses between those that fail."""

from __future__ import annotations

import time

from tensorbus._base.errors import WorkerDied
from tensorbus._pools.shortage import is_shortage
from tensorbus._pools.task import log
from tensorbus._pools.worker import Job
from tensorbus._pools.worker_process import Ways, WorkerProcess, end_in_words, ended_for_shortage

# Seconds before a worker is started again that could not be started, or died while it started.
# Each pause is twice as long as the one before.
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
# A place is given up after this number of deaths in a row. Shortages do not count.
_MAX_DEATHS = 6


class Place:
    """Starts one worker at a time. Used by one thread."""

    def __init__(self, number: int, job: Job, ways: Ways) -> None:
        self.number = number
        self.worker: WorkerProcess | None = None
        self.error: Exception | None = None  # why no worker could be started
        self.given_up: WorkerDied | None = None
        self._job = job
        self._ways = ways
        self._deaths = 0  # in a row, of workers that were never ready
        self._failures = 0  # the same, with shortages
        self._due = 0.0

    @property
    def is_short(self) -> bool:
        """Is there no worker, for want of a process, memory or a descriptor?"""
        return self.worker is None and self.error is not None and is_shortage(self.error)

    @property
    def pause(self) -> float | None:
        """Seconds until a worker is to be started; None if there is nothing to start."""
        if self.worker is not None or self.given_up is not None:
            return None
        return max(self._due - time.monotonic(), 0.0)

    def start(self) -> None:
        """Starts a worker, or notes why that must wait.

        Raises:
            Exception: it can never be started: the function cannot be pickled, say.
        """
        try:
            self.worker = WorkerProcess(self.number, self._job, self._ways)
        except (OSError, EOFError, MemoryError, RuntimeError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.error = error
        if is_shortage(error):
            self._put_off()
        elif isinstance(error, RuntimeError):
            raise error
        else:  # the fork server has died, say
            self._count_death(f"worker {self.number} could not be started: {error!r}")

    def ready(self) -> None:
        """The worker is."""
        self._deaths = self._failures = 0
        self.error = None

    def replace(self) -> str:
        """Clears the place of its dead worker, and returns how that died."""
        assert self.worker is not None
        worker, self.worker = self.worker, None
        code = worker.reap()
        end = f"{worker.name} died {end_in_words(code)}"
        if worker.ready:
            self._due = 0.0
        elif ended_for_shortage(code):
            self._fail(MemoryError(f"{worker.name} could not join the bus"))
        else:
            self._count_death(f"{end} while it started")
        return end

    def _count_death(self, end: str) -> None:
        self._deaths += 1
        self._put_off()
        if self._deaths < _MAX_DEATHS:
            log.warning("%s; another one is started in its place", end)
            return
        log.error("%s, as the %d before it; its place stays empty", end, self._deaths - 1)
        self.given_up = WorkerDied(f"{end}, the last of {self._deaths} that did")

    def _put_off(self) -> None:
        pause = min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 16)  # a larger power would have no float
        self._due = time.monotonic() + pause
