"""The two processes of a benchmark in Python, and the memory that they share beside the bus."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import time
from tempfile import TemporaryDirectory
from types import TracebackType

from harness.cores import core_pair, pin_to

# Indices into `words`, each in two cache lines of its own.
ACKED = 0  # by the receiver: messages that it has done
SENT = 16  # for the floor: by the sender
_SENDER_AT = 32  # how often each came to meet()
_RECEIVER_AT = 48
STAMPS = 64  # by the receiver, from here on: what the sender is to read after meet()

_RECEIVER = "TENSORBUS_BENCH_RECEIVER"  # in its environment: "descriptor:domain"
_PR_SET_PDEATHSIG = 1


class TwoProcesses:
    """A sender and, started by it, the same program again as the receiver, each on its own core.

    Both run the same rows in the same order and meet at `meet()`. The words are plain 64-bit loads
    and stores, in the order of the program: that is what x86-64 makes of a memoryview's.
    """

    def __init__(self, stamps: int) -> None:
        given = os.environ.get(_RECEIVER)
        self.is_sender = given is None
        self._meetings = 0
        self._receiver: subprocess.Popen[bytes] | None = None
        cores = core_pair()
        if given is None:
            self._directory = TemporaryDirectory(
                prefix="tensorbus-bench-", ignore_cleanup_errors=True
            )
            self.domain = self._directory.name
            descriptor = os.memfd_create("tensorbus-bench")
            os.ftruncate(descriptor, 8 * (STAMPS + stamps))
            self._start_receiver(descriptor)
        else:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            text, self.domain = given.split(":", 1)
            descriptor = int(text)
        self.words = memoryview(mmap.mmap(descriptor, 8 * (STAMPS + stamps))).cast("Q")
        os.close(descriptor)
        pin_to(cores.sender if self.is_sender else cores.receiver)

    def meet(self) -> None:
        """Waits until the other one is here too."""
        mine, other = (_SENDER_AT, _RECEIVER_AT) if self.is_sender else (_RECEIVER_AT, _SENDER_AT)
        self._meetings += 1
        self.words[mine] = self._meetings
        while self.words[other] < self._meetings:
            time.sleep(1e-4)

    def __enter__(self) -> TwoProcesses:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_sender:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # from here on the receiver may end
        if kind is None:
            self.meet()
        if self._receiver is not None:
            if kind is not None:
                self._receiver.kill()
            self._receiver.wait()
            self._directory.cleanup()

    def _start_receiver(self, descriptor: int) -> None:
        signal.signal(signal.SIGCHLD, _receiver_died)
        self._receiver = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, _RECEIVER: f"{descriptor}:{self.domain}"},
            pass_fds=[descriptor],
            stdout=subprocess.DEVNULL,
        )


def _receiver_died(_signal: int, _frame: object) -> None:
    """Nobody would ever meet us: end, loudly."""
    raise SystemExit("the receiver died")
