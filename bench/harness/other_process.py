"""The other process of a benchmark: forked, on the other core, dead when this one is."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from harness.cores import core_pair, pin_to, pinned_to

PATIENCE = 60.0  # seconds; only a failure takes as long
_PR_SET_PDEATHSIG = 1

fork: Any = multiprocessing.get_context("fork")


@contextmanager
def other_process(work: Callable[..., None], *args: Any) -> Iterator[Any]:
    """Does `work(link, *args)` on the receiver's core; this one is on the sender's meanwhile.

    Yields this end of the link. What the other fails of ends this one, too.
    """
    cores = core_pair()
    ours, theirs = fork.Pipe()
    process = fork.Process(target=_be, args=(cores.receiver, work, theirs, *args))
    process.start()
    theirs.close()
    try:
        with pinned_to(cores.sender):
            yield ours
        process.join(PATIENCE)
    finally:
        if process.is_alive():
            process.kill()
            process.join()
    if process.exitcode != 0:
        raise SystemExit("the other process failed")


def _be(core: int, work: Callable[..., None], *args: Any) -> None:
    die_with_parent()
    pin_to(core)
    work(*args)


def die_with_parent() -> None:
    """However that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
