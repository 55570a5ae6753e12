"""The results of many items, which are submitted as results are taken: for `imap` and `map`."""

from __future__ import annotations

import math
import queue
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import islice
from typing import Any, Protocol

from tensorbus._base.arguments import seconds, whole_number
from tensorbus._base.errors import Timeout
from tensorbus._pools.progress import progress
from tensorbus._pools.worker import Call, Chunk


class Futures(Protocol):
    """Futures that are taken in a certain order."""

    def add(self, future: Future[Any]) -> None: ...

    def take(self, limit: float | None) -> Future[Any]:
        """Takes the next future, which is done. Raises `queue.Empty` after the limit."""


class InOrder:
    """Futures in the order in which they were added."""

    def __init__(self) -> None:
        self._waiting: deque[Future[Any]] = deque()
        self.add = self._waiting.append

    def take(self, limit: float | None) -> Future[Any]:
        try:
            self._waiting[0].exception(limit)
        except FutureTimeout:
            if not self._waiting[0].done():
                raise queue.Empty from None
        return self._waiting.popleft()


class AsDone:
    """Futures in the order in which they are done."""

    def __init__(self) -> None:
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

    def add(self, future: Future[Any]) -> None:
        future.add_done_callback(self._done.put)

    def take(self, limit: float | None) -> Future[Any]:
        return self._done.get(timeout=limit)


def results_of(
    items: Iterable[Any],
    submit: Callable[[Any, float], Future[Any]],
    futures: Futures,
    *,
    prefetch: int,
    timeout: float | None,
    wanted: bool | None,
) -> Generator[Any, None, None]:
    """The results of the items; those without a result are cancelled at the end.

    Args:
        submit: see `PoolManager.submit_in_time`.
        prefetch, timeout: see `WorkerPool.imap`.
        wanted: see `progress`.
    """
    prefetch = whole_number("prefetch", prefetch, low=1)
    limit = seconds("timeout", timeout)
    deadline = math.inf if limit is None else time.monotonic() + limit
    pending: set[Future[Any]] = set()
    source = iter(items)
    try:
        with progress(wanted, items) as shown:
            while True:
                for item in islice(source, prefetch - len(pending)):
                    future = submit(item, deadline)
                    pending.add(future)
                    futures.add(future)
                    del item, future
                if not pending:
                    return
                pending.remove(future := _in_time(futures, deadline))
                result = future.result()
                del future
                shown.count()
                yield result
                del result
    finally:
        for future in pending:
            future.cancel()


class Submitting(Executor):
    """The standard `map` of an executor, over `PoolManager.submit_in_time`.

    If an item cannot be submitted, the items before it are cancelled.
    """

    def __init__(self, submit: Callable[[Any, float], Future[Any]], timeout: float | None) -> None:
        self._submit = submit
        self._deadline = math.inf if timeout is None else time.monotonic() + timeout
        self._submitted: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        try:
            future = self._submit(Call(fn, args, kwargs), self._deadline)
        except BaseException:
            for earlier in self._submitted:
                earlier.cancel()
            raise
        self._submitted.append(future)
        return future


def _in_time(futures: Futures, deadline: float) -> Future[Any]:
    limit = None if math.isinf(deadline) else max(deadline - time.monotonic(), 0.0)
    try:
        return futures.take(limit)
    except queue.Empty:
        raise Timeout("not all results arrived in time") from None


def chunks_of(items: Iterable[Any], size: int) -> Iterable[Chunk]:
    """The chunks: a list, which a progress bar needs, if the items have a length."""
    source = iter(items)
    chunks = iter(lambda: Chunk([*islice(source, size)]), Chunk([]))
    return [*chunks] if hasattr(items, "__len__") else chunks
