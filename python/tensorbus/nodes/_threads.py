"""A node's threads, with their CPUs and priority."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tensorbus._aio.callbacks import Mode
from tensorbus._aio.failures import log
from tensorbus._base.errors import AccessDenied, InvalidArgument

# Seconds after which a thread that has not ended is named in the log.
_JOIN_WARNING_AFTER = 5.0


@dataclass(frozen=True)
class Place:
    """The CPUs and the SCHED_FIFO priority of a thread; None: not set."""

    cpus: tuple[int, ...] | None = None
    priority: int | None = None

    @staticmethod
    def of(
        mode: Mode, cpu_affinity: int | Iterable[int] | None, sched_priority: int | None
    ) -> Place:
        """A place, after a test that a thread of this process may take it.

        Raises:
            InvalidArgument: a CPU does not exist, or this process may not use it; the priority is
                out of range; or one of them is given for mode "async".
            AccessDenied: the system does not grant the priority; the message names what is missing.
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
        """Gives the calling thread these CPUs and this priority."""
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
        allowed = sorted(os.sched_getaffinity(0))
        raise InvalidArgument(
            f"cpu_affinity={cpus}: {error}; this process may run on CPUs {allowed}"
        ) from None


def _be_urgent(priority: int) -> None:
    low = os.sched_get_priority_min(os.SCHED_FIFO)
    high = os.sched_get_priority_max(os.SCHED_FIFO)
    if not isinstance(priority, int) or not low <= priority <= high:
        raise InvalidArgument(f"sched_priority={priority!r}: expected {low} to {high}")
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError:
        raise AccessDenied(
            f"sched_priority={priority}: SCHED_FIFO needs CAP_SYS_NICE, or a limit on real-time "
            f"priority of at least {priority} (`ulimit -r`, LimitRTPRIO= in systemd, rtprio in "
            "/etc/security/limits.conf; a container needs --cap-add=SYS_NICE)"
        ) from None


class Threads:
    """The threads of a node. Methods may be called in any thread.

    Args:
        node: the node's name, the prefix of the threads' names.
        failed: called with the exception that ended a thread, and the thread's name.
    """

    def __init__(self, node: str, failed: Callable[[BaseException, str], None]) -> None:
        self._node = node
        self._failed = failed
        self.were_started: bool = False
        self._threads: list[threading.Thread] = []
        self._waiting: set[threading.Thread] = set()  # threads in _threads that have called join
        self._lock = threading.RLock()  # reentrant: a signal handler may start a thread

    def start(
        self, name: str, function: Callable[[], object], place: Place | None = None
    ) -> threading.Thread:
        def run() -> None:
            try:
                if place is not None:
                    place.take()
                function()
            except BaseException as error:  # includes SystemExit
                self._failed(error, name)

        # A daemon: a program that ends without closing its node does not wait for the thread.
        thread = threading.Thread(target=run, name=f"{self._node}: {name}", daemon=True)
        with self._lock:
            self._threads = [each for each in self._threads if each.is_alive()]
            self._threads.append(thread)
            self.were_started = True
            thread.start()  # with the lock held: _threads drops threads that are not alive
        return thread

    def join(self) -> None:
        """Waits for the threads.

        If one of the threads calls it, it waits neither for itself nor for other threads in `join`.
        """
        caller = threading.current_thread()
        with self._lock:
            threads = self._threads
            if caller in threads:  # threads in this call wait for the caller already
                threads = [each for each in threads if each not in {caller, *self._waiting}]
                self._waiting.add(caller)
        for thread in threads:
            if not thread.is_alive():  # it has ended, or a signal prevented its start
                continue
            thread.join(_JOIN_WARNING_AFTER)
            if thread.is_alive():
                log.warning("node %r waits for its thread %r to end", self._node, thread.name)
                thread.join()

    def __bool__(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)
