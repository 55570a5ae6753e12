"""Several processes that run one function: PyTorch's `spawn` and `start_processes`."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from tensorbus.multiprocessing.connection import Connection, Pipe, wait
from tensorbus.multiprocessing.context import default_context

__all__ = [
    "ENV_VAR_PARALLEL_START",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]

# A variable of PyTorch: "1" makes `start_processes` start processes of a fork server in parallel.
ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
# When a process has failed, seconds from SIGTERM to SIGKILL for the other processes.
_GRACE = 30.0


class ProcessException(Exception):
    """One of the processes failed; `error_index` and `error_pid` identify it."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __str__(self) -> str:
        return self.msg


class ProcessRaisedException(ProcessException):
    """The function raised an exception; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """The process was ended by the signal `signal_name`, or exited with the code `exit_code`."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.args: tuple[Any, ...] = (msg, error_index, error_pid, exit_code, signal_name)
        self.exit_code = exit_code
        self.signal_name = signal_name


class ProcessContext:
    """Processes that were started together: the result of `start_processes(join=False)`."""

    def __init__(self, processes: Sequence[Any], errors: Sequence[Connection]) -> None:
        self.processes: list[Any] = list(processes)
        self.sentinels: dict[int, int] = {
            process.sentinel: i for i, process in enumerate(processes)
        }
        self._errors = list(errors)
        self._tracebacks: dict[int, str] = {}

    def pids(self) -> list[int]:
        """The pids of all processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until one process ends. True if all have ended.

        Args:
            timeout: seconds to wait; `None` for no limit.
            grace_period: if a process has failed, seconds until the other processes get SIGTERM,
                and from SIGTERM to SIGKILL. `None`: SIGTERM at once, and SIGKILL after 30 seconds.

        Raises:
            ProcessRaisedException, ProcessExitedException: a process failed; all processes have
                ended.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while self.sentinels:
            left = None if until is None else max(0.0, until - time.monotonic())
            unread = [error for error in self._errors if not error.closed]
            ready = wait([*self.sentinels, *unread], left)
            failed = None
            for one in ready:
                if isinstance(one, Connection):
                    self._read(self._errors.index(one))
                elif isinstance(one, int) and self._has_failed(self.sentinels[one]):
                    failed = self.sentinels[one] if failed is None else failed
                if isinstance(one, int):
                    del self.sentinels[one]
            if failed is not None:
                self._end(grace_period)
                self._raise(failed)
            if any(isinstance(one, int) for one in ready) or not ready:
                break
        return not self.sentinels

    def _has_failed(self, index: int) -> bool:
        process = self.processes[index]
        process.join()
        return bool(process.exitcode != 0)

    def _read(self, index: int) -> None:
        """Reads the traceback that a process has reported."""
        error = self._errors[index]
        if error.closed:
            return
        with suppress(EOFError, OSError):
            self._tracebacks[index] = error.recv()
        error.close()

    def _end(self, grace_period: float | None) -> None:
        """Ends processes that still run."""
        if grace_period is not None:
            self._wait_for_all(grace_period)
        for end, name in (("terminate", "SIGTERM"), ("kill", "SIGKILL")):
            for process in self.processes:
                if process.is_alive():
                    log.warning("Terminating process %s via signal %s", process.pid, name)
                    getattr(process, end)()
            self._wait_for_all(_GRACE if grace_period is None else grace_period)
        for process in self.processes:
            process.join()

    def _wait_for_all(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))

    def _raise(self, index: int) -> None:
        self._read(index)
        process = self.processes[index]
        if index in self._tracebacks:
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n"
                f"{self._tracebacks[index]}",
                index,
                process.pid,
            )
        code = process.exitcode
        name = None
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
        how = f"signal {name}" if name else f"exit code {code}"
        raise ProcessExitedException(
            f"process {index} terminated with {how}", index, process.pid, code, name
        )


class SpawnContext(ProcessContext):
    """The old name of `ProcessContext`."""

    def __init__(self, processes: Sequence[Any], errors: Sequence[Connection]) -> None:
        warnings.warn("SpawnContext is called ProcessContext now", stacklevel=2)
        super().__init__(processes, errors)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs `fn(index, *args)` in `nprocs` processes.

    Args:
        fn: a function that can be pickled.
        args: its arguments after the index.
        nprocs: the number of processes; the indices are 0 to `nprocs - 1`.
        join: wait for all processes.
        daemon: see `multiprocessing.Process.daemon`.
        start_method: "spawn", "fork" or "forkserver". With "forkserver", and the environment
            variable `ENV_VAR_PARALLEL_START` set to "1", all are started at the same time.

    Returns:
        None with `join`; else the processes.

    Raises:
        ProcessRaisedException, ProcessExitedException: a process failed; the other processes were
            ended.
    """
    context = default_context.get_context(start_method)

    def start(index: int) -> tuple[Any, Connection]:
        error, report = Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, index, args, report), daemon=daemon)
        process.start()
        report.close()
        return process, error

    if start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START) == "1":
        log.info("Starting processes in parallel.")
        with ThreadPoolExecutor(max(nprocs, 1)) as threads:
            made = list(threads.map(start, range(nprocs)))
    else:
        made = [start(index) for index in range(nprocs)]
    started = ProcessContext([process for process, _ in made], [error for _, error in made])
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs `fn(index, *args)` in `nprocs` fresh interpreters; see `start_processes`."""
    if start_method != "spawn":
        warnings.warn(
            f"spawn() always spawns, and not by {start_method!r}: call start_processes()",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], report: Connection) -> None:
    # Without this signal, a process that is not a daemon would outlive a parent that is killed.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has ended, or the user has pressed Ctrl-C
    except Exception:
        report.send(traceback.format_exc())
        sys.exit(1)
