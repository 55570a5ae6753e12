"""Functions that run in several threads at the same moment."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.harness import PATIENCE


@contextmanager
def switching_often() -> Iterator[None]:
    """With a GIL, threads switch between any two steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def beside(*functions: Callable[[], object]) -> Iterator[None]:
    """Calls each of them again and again, in a thread of its own. What it raises fails the test."""
    ended = threading.Event()
    errors: list[BaseException] = []

    def run(function: Callable[[], object]) -> None:
        try:
            while not ended.is_set():
                function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert not errors, errors


def asleep(thread: threading.Thread) -> bool:
    """Waits this thread of this process for something, in a call of the kernel?"""
    status = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
    return status.rpartition(") ")[2].startswith("S")


def in_threads(*functions: Callable[[], object]) -> None:
    """Calls each once, at the same moment. What one raises is raised here."""
    barrier = threading.Barrier(len(functions))
    errors: list[BaseException] = []

    def run(function: Callable[[], object]) -> None:
        try:
            barrier.wait(PATIENCE)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    if errors:
        raise errors[0]
