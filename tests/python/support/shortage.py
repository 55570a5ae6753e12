"""A process that has no descriptor left, so that its event loop has something to say."""

from __future__ import annotations

import os
import resource
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
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
