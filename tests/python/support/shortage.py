"""Processes that have no descriptor left."""

from __future__ import annotations

import logging
import os
import resource
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import tensorbus as tb


@contextmanager
def no_descriptor_for_a_peer(domain: str | None = None) -> Iterator[None]:
    """Somebody connects to this process, which cannot accept; it goes on trying.

    Args:
        domain: on which no other process is.
    """
    folder = Path(tb.participant(domain).domain)
    (path,) = (each for each in folder.iterdir() if stat.S_ISSOCK(each.stat().st_mode))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = os.open(folder, os.O_PATH)  # a socket's path may have 107 bytes
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            peer.connect(f"/proc/self/fd/{opened}/{path.name}")
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            os.close(opened)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process has as many descriptors open as it may have."""
    held: list[int] = []
    with suppress(OSError):
        while True:
            held.append(os.dup(0))
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def limit_descriptors(most: int) -> None:
    """For the rest of this process, which should be one of the test's own."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Refusals(logging.Handler):
    """Hears, in place of stderr, what the package logs: that a connection was refused."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()
        logger = logging.getLogger("tensorbus")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if "refused its connection" in record.getMessage():
            self.heard.set()
