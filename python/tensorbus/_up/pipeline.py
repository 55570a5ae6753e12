"""A pipeline that a program runs: for tests and notebooks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from tensorbus._base.arguments import seconds
from tensorbus._base.errors import InvalidArgument, Timeout
from tensorbus._base.public import public
from tensorbus._up.client import ask
from tensorbus._up.control import Request
from tensorbus._up.program import Plan
from tensorbus._up.schema import load
from tensorbus._up.status import ProcessStatus, statuses

_REPLY = 5.0  # seconds


@public
class Pipeline:
    """The processes of a file, as `tensorbus up` runs them (docs/tasks/up.md).

    They are children of a process of their own, and end when this process ends, however it ends.
    Their output goes to the standard output of this process. Made by `Pipeline.load`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pipeline.toml")
    ...     _ = path.write_text('[process.camera]\\nrun = ["sleep", "1000"]')
    ...     with Pipeline.load(path, domain="doc-pipeline") as pipeline:
    ...         pipeline.wait_until_healthy(timeout=60)
    ...         [(process.process, process.state) for process in pipeline.status()]
    [('camera', 'running')]
    """

    def __init__(self, plan: Plan, domain: str | None) -> None:
        """Use `load`."""
        self._plan = plan
        self._domain = domain
        self._guard: subprocess.Popen[bytes] | None = None
        self._socket = Path()

    @classmethod
    def load(cls, path: str | os.PathLike[str], domain: str | None = None) -> Pipeline:
        """The pipeline of a file. It is not started.

        Args:
            path: the file.
            domain: in place of the `domain` of the file.

        Raises:
            InvalidArgument: the file describes no pipeline; each line names a problem.
            OSError: the file cannot be read.
        """
        return cls(load(path, domain), domain)

    @property
    def name(self) -> str:
        """The name of the pipeline."""
        return self._plan.name

    def start(self, *, log_dir: str | os.PathLike[str] | None = None, quiet: bool = False) -> None:
        """Starts the pipeline.

        Args:
            log_dir: a folder for a file of each process.
            quiet: do not print the lines of the processes.

        Raises:
            InvalidArgument: it has been started, or another process runs a pipeline of this name on
                the domain.
        """
        if self._guard is not None:
            raise InvalidArgument(f"pipeline {self.name!r} has been started")
        read_end, write_end = os.pipe()
        command = [sys.executable, "-m", "tensorbus._up.guard", str(write_end), str(log_dir or "")]
        command += [self._domain or "", str(self._plan.path)]
        try:
            self._guard = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL if quiet else None,
                pass_fds=[write_end],
                # Not in the group of the terminal: this process decides what Ctrl-C ends.
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        with open(read_end, "rb") as ready:
            self._socket = Path(os.fsdecode(ready.read()))
        if self._socket == Path():
            status = self._guard.wait()
            raise InvalidArgument(f"pipeline {self.name!r} did not start: exit {status}")

    def run(self) -> int:
        """Runs the pipeline until its last process has ended. Returns the exit status.

        The status is 0, or 1 if a process has failed. `KeyboardInterrupt` ends the pipeline.
        """
        with self:
            return self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end of the pipeline. Returns the exit status.

        Raises:
            Timeout: it has not ended within `timeout` seconds.
        """
        try:
            return self._started().wait(seconds("timeout", timeout))
        except subprocess.TimeoutExpired:
            raise Timeout(f"pipeline {self.name!r} did not end within {timeout:g} s") from None

    def wait_until_healthy(self, timeout: float | None = None) -> None:
        """Waits until all processes run or have ended well, and all expectations are met.

        Raises:
            Timeout: that was not so within `timeout` seconds; the text names the causes. The
                process of the pipeline is asked for them, and has 5 seconds to reply.
            InvalidArgument: a process has failed.
            Closed: the pipeline has ended.
        """
        self._started()
        try:
            ask(self._socket, Request("wait"), seconds("timeout", timeout))
        except TimeoutError:
            text = f"pipeline {self.name!r} was not healthy within {timeout:g} s"
            raise Timeout(f"{text}: {'; '.join(self._ask('problems')['problems'])}") from None

    def status(self) -> list[ProcessStatus]:
        """What each process does now.

        Raises:
            Timeout: its process did not reply within 5 seconds.
            Closed: the pipeline has ended.
        """
        return statuses(self._ask("status"))

    def restart(self, name: str) -> None:
        """Ends a process, or all replicas of a table, and starts it again.

        Raises:
            InvalidArgument: there is no process of this name.
            Timeout, Closed: like `status`.
        """
        self._ask("restart", name)

    def stop(self, name: str | None = None) -> None:
        """Ends a process, and starts it no more; without a name, ends the pipeline, and waits.

        Raises:
            InvalidArgument: there is no process of this name.
            Timeout, Closed: like `status`, with a name.
        """
        if name is not None:
            self._ask("stop", name)
        elif self._guard is not None and self._guard.poll() is None:
            self._guard.send_signal(signal.SIGTERM)
            self._guard.wait()

    def kill(self) -> None:
        """Ends all processes at once, with SIGKILL, and waits."""
        if self._guard is not None and self._guard.poll() is None:
            self._guard.send_signal(signal.SIGTERM)
            self._guard.send_signal(signal.SIGINT)
            self._guard.wait()

    def __enter__(self) -> Pipeline:
        if self._guard is None:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._guard is None:
            raise InvalidArgument(f"pipeline {self.name!r} has not been started")
        return self._guard

    def _ask(self, do: str, name: str = "") -> dict[str, Any]:
        self._started()
        try:
            return ask(self._socket, Request(do, name), _REPLY)
        except TimeoutError:
            text = f"the process of pipeline {self.name!r} did not reply within {_REPLY:g} s"
            raise Timeout(text) from None
