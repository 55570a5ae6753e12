"""Processes that are started together, and end together if one of them fails."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn

PEER_GONE = 3  # the exit status of a process that ends because another one did


class Failed(Exception):
    """The demo cannot go on; says why in one line."""


def leave(reason: str) -> NoReturn:
    """Ends this process because another one is not there."""
    print(reason, file=sys.stderr)
    sys.exit(PEER_GONE)


class Processes:
    """Starts one process for each command; none outlives the `with` block.

    Args:
        commands: what to run, by name.
        logs: a folder for NAME.log, with all that the process has printed.
    """

    def __init__(
        self, commands: Mapping[str, Sequence[str]], logs: Path, environment: Mapping[str, str]
    ) -> None:
        self._logs = logs
        self._running = {}
        for name, command in commands.items():
            with self._log(name).open("wb") as log:
                self._running[name] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **environment},
                    start_new_session=True,  # a group of its own, to be killed with its children
                )

    def wait(self, timeout: float, meanwhile: Callable[[], None]) -> None:
        """Until all have ended well; calls `meanwhile` several times a second.

        Raises:
            Failed: one ended otherwise, or the time is over.
        """
        deadline = time.monotonic() + timeout
        while any(process.poll() is None for process in self._running.values()):
            self._raise_for_failures()
            if time.monotonic() > deadline:
                raise Failed(f"{self._running_names()} did not end in {timeout:.0f} s")
            meanwhile()
            time.sleep(0.1)
        self._raise_for_failures()

    def _raise_for_failures(self) -> None:
        if not any(process.poll() for process in self._running.values()):
            return
        # One process drags the others along, and need not be the first to have ended.
        with contextlib.suppress(subprocess.TimeoutExpired):
            for process in self._running.values():
                process.wait(timeout=2)
        codes = {name: process.poll() for name, process in self._running.items()}
        failed = {name: code for name, code in codes.items() if code}
        causes = {name: code for name, code in failed.items() if code != PEER_GONE}
        raise Failed("; ".join(self._describe(*failure) for failure in (causes or failed).items()))

    def _running_names(self) -> str:
        return ", ".join(name for name, one in self._running.items() if one.poll() is None)

    def _describe(self, name: str, code: int) -> str:
        log = self._log(name)
        if code < 0:
            return f"{name} was ended by {signal.Signals(-code).name} (see {log})"
        lines = log.read_text(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), f"exit {code}")
        return f"{name} failed: {last.strip()} (see {log})"

    def _log(self, name: str) -> Path:
        return self._logs / f"{name.replace(' ', '-')}.log"

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running.values():
            if process.poll() != 0:  # it runs, or it failed and may have left children behind
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
