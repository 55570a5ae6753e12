"""The end of a child process."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from multiprocessing.process import BaseProcess


class Death:
    """That of a process which this one has started, until that is joined."""

    def __init__(self, process: BaseProcess) -> None:
        assert process.pid
        self._process = process
        self._has_pidfd = True
        try:
            # Unlike the sentinel it is of the process alone, not of children that it leaves behind.
            self.descriptor = os.pidfd_open(process.pid)  # readable, when it has ended
        except OSError:
            # A kernel before 5.3, or a sandbox. If descriptors are short, dup() says so.
            self._has_pidfd = False
            self.descriptor = os.dup(process.sentinel)

    def bring_about(self) -> None:
        if not self._has_pidfd:
            self._process.kill()
            return
        with suppress(OSError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)

    def close(self) -> None:
        os.close(self.descriptor)
