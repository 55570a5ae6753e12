"""Detection of a child process's end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from multiprocessing.process import BaseProcess


class Death:
    """Watches a child process, and can kill it. Use it until the process is joined."""

    def __init__(self, process: BaseProcess) -> None:
        assert process.pid
        self._process = process
        self._has_pidfd = True
        try:
            # Not the sentinel: orphaned children of the process keep the sentinel open.
            self.descriptor = os.pidfd_open(process.pid)  # readable once the process has ended
        except OSError:
            # A kernel before 5.3, or a sandbox. If no descriptor was left, dup() raises, too.
            self._has_pidfd = False
            self.descriptor = os.dup(process.sentinel)

    def kill(self) -> None:
        if not self._has_pidfd:
            self._process.kill()
            return
        with suppress(OSError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)

    def close(self) -> None:
        os.close(self.descriptor)
