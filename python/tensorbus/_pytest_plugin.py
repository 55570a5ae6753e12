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
    """A domain of this test alone, and of the processes that it starts; its path.

    It is the default domain, by `TENSORBUS_DOMAIN`. After the test its directory is removed, and
    the memory that this process had in it is freed. Close publishers, subscribers and queues, and
    wait for child processes, before the test ends: the fixture does not.
    """
    path = mkdtemp(prefix="tensorbus-")  # short: a socket's path has little room
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TENSORBUS_DOMAIN", path)
        _end_forkserver()
        yield path
    participant.forget(path)
    _end_forkserver()
    shutil.rmtree(path, ignore_errors=True)


def _end_forkserver() -> None:
    """Has multiprocessing start another one for its next child, with this environment.

    One that has children goes on: their parent learns from it how they end.
    """
    if "multiprocessing.forkserver" not in sys.modules:
        return
    from multiprocessing import active_children, forkserver

    if not active_children():
        forkserver._forkserver._stop()  # type: ignore[attr-defined]
