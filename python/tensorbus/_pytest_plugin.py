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
    """The path of a domain of this test and of the processes that it starts.

    It is the default domain, by `TENSORBUS_DOMAIN`. After the test its directory is removed, and
    this process's memory in it is freed. Close publishers, subscribers and queues, and wait for
    child processes, before the test ends: the fixture does not.
    """
    path = mkdtemp(prefix="tensorbus-")  # short: the path of a socket is limited
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TENSORBUS_DOMAIN", path)
        _end_forkserver()
        yield path
    participant.forget(path)
    _end_forkserver()
    shutil.rmtree(path, ignore_errors=True)


def _end_forkserver() -> None:
    """Makes multiprocessing start a new fork server, with this environment, for its next child.

    A fork server that has children stays: it reports their ends to their parent.
    """
    if "multiprocessing.forkserver" not in sys.modules:
        return
    from multiprocessing import active_children, forkserver

    if not active_children():
        forkserver._forkserver._stop()  # type: ignore[attr-defined]
