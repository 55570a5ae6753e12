"""The pytest plugin: a domain and a pipeline for one test, by the entry point `pytest11`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest

from tensorbus._base import participant

if TYPE_CHECKING:
    from tensorbus._up.pipeline import Pipeline


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


@pytest.fixture
def tensorbus_pipeline(tensorbus_domain: str) -> Iterator[Callable[..., Pipeline]]:
    """Starts pipelines for this test, and ends them after it.

    `tensorbus_pipeline(path, timeout=30.0)` starts the pipeline of a file on the domain of
    `tensorbus_domain`, waits until it is healthy, and returns the `tensorbus.Pipeline`. An error
    names the processes that are not well.
    """
    from tensorbus._up.pipeline import Pipeline

    with ExitStack() as started:

        def start(path: str | os.PathLike[str], timeout: float | None = 30.0) -> Pipeline:
            pipeline = started.enter_context(Pipeline.load(path, domain=tensorbus_domain))
            pipeline.wait_until_healthy(timeout)
            return pipeline

        yield start


def _end_forkserver() -> None:
    """Makes multiprocessing start a new fork server, with this environment, for its next child.

    A fork server that has children keeps running: it reports their exits to this process.
    """
    if "multiprocessing.forkserver" not in sys.modules:
        return
    from multiprocessing import active_children, forkserver

    if not active_children():
        forkserver._forkserver._stop()  # type: ignore[attr-defined]
