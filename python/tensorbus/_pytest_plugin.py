"""The pytest plugin: a domain for one test. pytest finds it by the entry point `pytest11`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from tempfile import mkdtemp

import pytest

from tensorbus._base import participant


@pytest.fixture
def tensorbus_domain() -> Iterator[str]:
    """The path of a domain for this test and for the processes that it starts.

    The fixture sets `TENSORBUS_DOMAIN`, which makes this the default domain. After the test it
    removes the directory and frees this process's memory in the domain. Before the test ends, close
    publishers, subscribers and queues, and wait for child processes: the fixture does neither.
    """
    path = mkdtemp(prefix="tensorbus-")  # short: the length of a socket's path is limited
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TENSORBUS_DOMAIN", path)
        _end_forkserver()
        yield path
    participant.forget(path)
    _end_forkserver()
    shutil.rmtree(path, ignore_errors=True)


def _end_forkserver() -> None:
    """Makes multiprocessing start a new fork server, with this environment, for its next child.

    A fork server that has children keeps running: it reports their exits to this process.
    """
    if "multiprocessing.forkserver" not in sys.modules:
        return
    from multiprocessing import active_children, forkserver

    if not active_children():
        forkserver._forkserver._stop()  # type: ignore[attr-defined]
