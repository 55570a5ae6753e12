"""A node's threads: where they run, and their end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tensorbus._aio.callbacks import Mode
from tensorbus._aio.failures import log
from tensorbus._base.errors import AccessDenied, InvalidArgument

# Seconds after which one that has not ended is named in the log.
_SOON = 5.0


@dataclass(frozen=True)
class Place:
    """Where a thread is to run, and how urgent it is: CPU numbers, SCHED_FIFO's priority."""

    cpus: tuple[int, ...] | None = None
    priority: int | None = None

    @staticmethod
    def of(
        mode: Mode, cpu_affinity: int | Iterable[int] | None, sched_priority: int | None
    ) -> Place:
        """Such a place, if a thread of ours may have it.

        Raises:
            InvalidArgument: CPUs that are not there, or not ours; a priority out of range; either
                of them in the event loop.
            AccessDenied: what is missing for the priority.
        """
        if isinstance(cpu_affinity, int):
            cpu_affinity = (cpu_affinity,)
        place = Place(None if cpu_affinity is None else tuple(cpu_affinity), sched_priority)
        if place != Place():
            if mode == "async":
                raise InvalidArgument("cpu_affinity and sched_priority are for mode='sync'")
            place._try()
        return place

    def take(self) -> None:
        """For the calling thread."""
        if self.cpus is not None:
            _run_on(self.cpus)
        if self.priority is not None:
            _be_urgent(self.priority)

    def _try(self) -> None:
        errors: list[Exception] = []

        def take() -> None:
            try:
                self.take()
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]


def _run_on(cpus: tuple[int, ...]) -> None:
    try:
        os.sched_setaffinity(0, cpus)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        ours = sorted(os.sched_getaffinity(0))
        raise InvalidArgument(
            f"cpu_affinity={cpus}: {error}; this process may run on CPUs {ours}"
        ) from None


def _be_urgent(priority: int) -> None:
    least, most = (
        os.sched_get_priority_min(os.SCHED_FIFO),
        os.sched_get_priority_max(os.SCHED_FIFO),
    )
    if not isinstance(priority, int) or not least <= priority <= most:
        raise InvalidArgument(f"sched_priority={priority!r}: expected {least} to {most}")
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError:
        raise AccessDenied(
            f"sched_priority={priority}: SCHED_FIFO needs CAP_SYS_NICE, or a limit on real-time "
            f"priority of at least {priority} (`ulimit -r`, LimitRTPRIO= in systemd, rtprio in "
            "/etc/security/limits.conf; a container needs --cap-add=SYS_NICE)"
        ) from None


class Threads:
    """Threads that end when they are asked to. In any thread.

    Args:
        node: its name, which stands before the threads'.
        failed: is handed what ends a thread too early, and the thread's name.
    """

    def __init__(self, node: str, failed: Callable[[BaseException, str], None]) -> None:
        self._node = node
        self._failed = failed
        self.were_started: bool = False
        self._threads: list[threading.Thread] = []
        self._waiting: set[threading.Thread] = set()  # those of them that have called join
        self._lock = threading.RLock()  # a handler of a signal may start one, too

    def start(
        self, name: str, function: Callable[[], object], place: Place | None = None
    ) -> threading.Thread:
        def run() -> None:
            try:
                if place is not None:
                    place.take()
                function()
            except BaseException as error:  # sys.exit, too
                self._failed(error, name)

        # A program that ends without closing its node does not wait for it.
        thread = threading.Thread(target=run, name=f"{self._node}: {name}", daemon=True)
        with self._lock:
            self._threads = [each for each in self._threads if each.is_alive()]
            self._threads.append(thread)
            self.were_started = True
            thread.start()  # with the lock: before it, the thread is not alive yet
        return thread

    def join(self) -> None:
        """Waits for all of them. One of them does not wait for itself, nor for those that wait."""
        caller = threading.current_thread()
        with self._lock:
            threads = self._threads
            if caller in threads:  # those that wait already do so for the caller, too
                threads = [each for each in threads if each not in {caller, *self._waiting}]
                self._waiting.add(caller)
        for thread in threads:
            if not thread.is_alive():  # ended, or a signal kept it from being started
                continue
            thread.join(_SOON)
            if thread.is_alive():
                log.warning("node %r waits for its thread %r to end", self._node, thread.name)
                thread.join()

    def __bool__(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)
