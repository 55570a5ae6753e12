"""What a function, an item or a result may raise besides Exceptions: it is that task's error."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.queues.pools import METHODS, QUICK, Gate, wait_for

# `Closed` is also what a worker gets when its pool is over.
KINDS = [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit, tb.Closed]


def raise_it(what: type[BaseException]) -> Any:
    raise what("no")


class Raises:
    """Raises when it is pickled, or when the pickle is read."""

    def __init__(self, what: type[BaseException], *, when: str) -> None:
        self._what = what
        self._when = when

    def __reduce__(self) -> Any:
        if self._when == "pickled":
            raise self._what("no")
        return raise_it, (self._what,)


def make(what: type[BaseException], when: str) -> Raises:
    return Raises(what, when=when)


def own_process(*_: object) -> int:
    return os.getpid()


def of_function(pool: tb.WorkerPool[Any, Any], what: type[BaseException]) -> Any:
    return pool.submit(raise_it, what)


def of_argument(when: str, pool: tb.WorkerPool[Any, Any], what: type[BaseException]) -> Any:
    return pool.submit(own_process, Raises(what, when=when))


def of_result(when: str, pool: tb.WorkerPool[Any, Any], what: type[BaseException]) -> Any:
    return pool.submit(make, what, when)


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_a_base_exception_is_the_error_of_its_task_and_the_worker_lives(
    what: type[BaseException], method: str
) -> None:
    sources: list[Callable[..., Any]] = [of_function]
    for when in ("pickled", "read"):
        for source in (of_argument, of_result):
            sources.append(lambda *given, source=source, when=when: source(when, *given))
    with tb.WorkerPool(workers=1, context=method) as pool:
        worker = pool.submit(own_process).result(PATIENCE)
        for source in sources:
            error = source(pool, what).exception(PATIENCE)
            assert type(error) is what
            assert error.args == ("no",)
            assert pool.submit(own_process).result(PATIENCE) == worker


class Unreadable(BaseException):
    """Ends the process that reads it."""

    def __reduce__(self) -> Any:
        return raise_it, (SystemExit,)


def test_a_base_exception_that_cannot_be_read_is_told() -> None:
    with tb.WorkerPool(workers=1, **QUICK) as pool:
        error = pool.submit(raise_it, Unreadable).exception(PATIENCE)
        assert isinstance(error, tb.Error)
        assert "Unreadable" in str(error)
        assert pool.submit(own_process).result(PATIENCE)


def test_a_callback_that_raises_a_base_exception_does_not_end_the_pool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called = threading.Event()

    def callback(_: object) -> None:
        called.set()
        raise SystemExit(3)

    with Gate() as gate, tb.WorkerPool(workers=1, **QUICK) as pool:
        future = pool.submit(wait_for, gate)
        gate.who()
        future.add_done_callback(callback)
        gate.let_one_through()
        assert called.wait(PATIENCE)
        assert pool.submit(own_process).result(PATIENCE)
    assert "a callback of a result raised SystemExit" in caplog.text
