"""Worker pools: a function in many processes, tensors in and out by reference."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import queue
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from itertools import chain, islice
from multiprocessing.context import BaseContext
from multiprocessing.util import Finalize
from typing import Any, Generic, overload
from weakref import ref

from tensorbus._base.arguments import Access, access_named, seconds, whole_number
from tensorbus._base.closing import cannot_pickle
from tensorbus._base.device import ordinal_of
from tensorbus._base.errors import Forked, InvalidArgument, Timeout
from tensorbus._base.generics import Item, Result
from tensorbus._base.public import public
from tensorbus._pools.pool_manager import PoolManager
from tensorbus._pools.progress import progress
from tensorbus._pools.worker import Call, Chunk, Job, call_all, call_it, takes_device
from tensorbus._pools.worker_process import Ways


@public
class WorkerPool(Executor, Generic[Item, Result]):
    """Processes that call a function with items, one for each core, or for each device.

    It is a `concurrent.futures.Executor`. Without a function it has that class's `submit(function,
    ...)` and `map(function, ...)`, for `loop.run_in_executor` and other code that expects one.

    Items and results are any objects that can be pickled; their tensors go by reference. A worker
    has one item at a time. One that dies (by a signal, or `os._exit`) is replaced.

    As a context: waits for what was submitted, or, when an exception leaves it, ends the workers at
    once. A worker that is still in its initializer is ended then, too. All workers end when this
    process does, however it does.

    Args:
        function: called with each item; `None`: each `submit` brings its own. As everything that
            goes to a process that is not forked, it must be found by its name there, so not be a
            lambda, and a program begins under `if __name__ == "__main__":`. If it has a parameter
            `device`, it is given the worker's.
        workers: how many; one for each core this process may use if there are no devices.
        devices: one worker for each of them: anything that can be pickled, "cuda:0" or
            `torch.device("cpu")`. A GPU is the current one of its worker: "cuda" means it there,
            for PyTorch too. Ordinals are those of the pool's process.
        initializer: called once in each worker, with its `device` if it has such a parameter; what
            it returns is the first argument of each call of `function`. Without a function it is
            not used.
        retries: how many more times an item is tried whose worker died. With 0, it is not run
            again, and its result is `WorkerDied`.
        context: how processes are started: "spawn", "forkserver", "fork", or a context of
            `multiprocessing`.
        access: what may be done with the tensors of results here, and with those of items in the
            workers, see `tensorbus.Subscriber`; `None` is "copy-on-write". With "shared" both sides
            see what either writes, and `submit` moves an ordinary torch tensor's memory, as
            `Queue(shared=True)` does.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: no worker, "gpu" instead of "cuda", or devices that are no GPUs, and
            neither function has such a parameter.
        OutOfMemory: no worker can be started; the message names the limits.
        Exception: whatever pickling the functions raises.

    >>> with WorkerPool(len, workers=1) as pool:
    ...     pool.map(["a", "bc", "def"])
    [1, 2, 3]
    >>> with WorkerPool(workers=1) as pool:
    ...     pool.submit(divmod, 7, 2).result()
    (3, 1)
    """

    @overload
    def __init__(
        self,
        function: Callable[[Item], Result],
        *,
        workers: int | None = None,
        devices: Sequence[Any] | None = None,
        initializer: None = None,
        retries: int = 0,
        context: str | BaseContext = "spawn",
        access: Access | None = None,
        domain: str | None = None,
    ) -> None: ...
    @overload  # the function has more parameters: `device`, or what the initializer returns
    def __init__(
        self,
        function: Callable[..., Result] | None = None,
        *,
        workers: int | None = None,
        devices: Sequence[Any] | None = None,
        initializer: Callable[..., Any] | None = None,
        retries: int = 0,
        context: str | BaseContext = "spawn",
        access: Access | None = None,
        domain: str | None = None,
    ) -> None: ...
    def __init__(
        self,
        function: Callable[..., Result] | None = None,
        *,
        workers: int | None = None,
        devices: Sequence[Any] | None = None,
        initializer: Callable[..., Any] | None = None,
        retries: int = 0,
        context: str | BaseContext = "spawn",
        access: Access | None = None,
        domain: str | None = None,
    ) -> None:
        if access is not None:
            access_named(access)
        self._function = function
        called = call_it if function is None else function
        if isinstance(context, str):
            context = multiprocessing.get_context(context)
        jobs = [
            Job(called, initializer, device)
            for device in _devices(workers, devices, called, initializer)
        ]
        self._process = os.getpid()
        self._manager = PoolManager(
            jobs, Ways(context, access, domain), whole_number("retries", retries, least=0)
        )
        self._size = len(jobs)
        # Before multiprocessing waits for its processes, which it does at exit, too. In its own
        # children it calls no handlers of atexit, but finalizers.
        self._at_exit = partial(_end, ref(self._manager))
        atexit.register(self._at_exit)
        self._at_child_exit = Finalize(None, self._at_exit, exitpriority=0)

    @overload
    def submit(self, item: Item, /) -> Future[Result]: ...
    @overload  # of a pool without a function
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]: ...
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The result, some time: `submit(item)`; without a function, `submit(fn, *args, **kwargs)`.

        An item, or arguments, are pickled when a worker takes them: do not change them before. The
        future can be cancelled until then. Its result may be an exception: of the function, with
        the worker's traceback as its cause; of pickling; `WorkerDied`; or `Closed` after
        `terminate`.

        Raises:
            Closed: the pool is closed.
            TypeError: more than an item, of a pool that has a function.
            WorkerDied: all workers died, six times in a row, before they were ready.
            BaseException: whatever the initializer raised.
        """
        if self._function is None:
            return self._own.submit(Call(fn, args, kwargs))
        if args or kwargs:
            raise TypeError(
                "submit() of a pool with a function takes one item; WorkerPool() without a "
                "function takes a function and its arguments"
            )
        return self._own.submit(fn)

    @overload
    def map(
        self,
        items: Iterable[Item],
        /,
        *,
        timeout: float | None = None,
        chunksize: int = 1,
        progress: bool | None = None,
    ) -> list[Result]: ...
    @overload  # of a pool without a function
    def map(
        self,
        fn: Callable[..., Any],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Any]: ...
    def map(
        self,
        fn: Any,
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        progress: bool | None = None,
    ) -> Any:
        """The results for all items, in their order: `map(items)` is a list of them.

        Without a function, `map(fn, *iterables)` is that of `concurrent.futures.Executor`: it takes
        all arguments at once, and returns an iterator, which raises `TimeoutError`.

        Args:
            items: any iterable; taken as it is needed, see `imap`.
            timeout: seconds for all of it.
            chunksize: so many items go to a worker at once, which costs less for small ones. They
                fail together.
            progress: a bar on stderr when it takes longer than two seconds; None: if that is a
                terminal and `rich` is installed.

        Raises:
            Timeout: it took longer; items that no worker has begun are dropped.
            TypeError: more than items, of a pool that has a function.
            Exception: the first one, in order, of an item, as `submit` has it. The rest is dropped.
        """
        size = whole_number("chunksize", chunksize, least=1)
        if self._function is None:
            if progress:
                raise TypeError("map() of a pool without a function has no progress bar")
            if size == 1:
                return super().map(fn, *iterables, timeout=timeout)
            calls = _chunks((Call(fn, each, {}) for each in zip(*iterables, strict=False)), size)
            results = super().map(call_all, calls, timeout=timeout)
            return chain.from_iterable(results)
        if iterables:
            raise TypeError("map() of a pool with a function takes its items alone")
        if size == 1:
            return list(self.imap(fn, timeout=timeout, progress=progress))
        chunked: Iterable[Any] = _chunks(fn, size)
        found: Iterator[Any] = self.imap(chunked, timeout=timeout, progress=progress)
        return [*chain.from_iterable(found)]

    def imap(
        self,
        items: Iterable[Item],
        *,
        prefetch: int | None = None,
        timeout: float | None = None,
        progress: bool | None = None,
    ) -> Iterator[Result]:
        """The results in the order of the items, one after the other. Begins with the first `next`.

        Args:
            items: any iterable, also an endless one.
            prefetch: so many items at most are taken from it, of which the result was not; two for
                each worker if it is None.
            timeout: seconds for all items together, from the first `next` on; what the caller does
                between results counts.
            progress: see `map`.

        Raises:
            TypeError: the pool has no function.
            Exception: as `map`.
        """
        self._check_function()
        waiting: deque[Future[Any]] = deque()

        def take(future: Future[Any]) -> None:
            waiting.append(future)

        def next_one(limit: float | None) -> Future[Any]:
            try:
                waiting[0].exception(limit)
            except FutureTimeout:
                if not waiting[0].done():
                    raise queue.Empty from None
            return waiting.popleft()

        return self._results(items, take, next_one, prefetch, timeout, progress)

    def imap_unordered(
        self,
        items: Iterable[Item],
        *,
        prefetch: int | None = None,
        timeout: float | None = None,
        progress: bool | None = None,
    ) -> Iterator[Result]:
        """The results as they come. Otherwise as `imap`."""
        self._check_function()
        done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

        def take(future: Future[Any]) -> None:
            future.add_done_callback(done.put)

        def next_one(limit: float | None) -> Future[Any]:
            return done.get(timeout=limit)

        return self._results(items, take, next_one, prefetch, timeout, progress)

    def _check_function(self) -> None:
        if self._function is None:
            raise TypeError(
                "a pool without a function has submit() and map(): WorkerPool(function)"
            )

    def _results(
        self,
        items: Iterable[Any],
        take: Callable[[Future[Any]], None],
        next_one: Callable[[float | None], Future[Any]],
        prefetch: int | None,
        timeout: float | None,
        wanted: bool | None,
    ) -> Generator[Any, None, None]:
        most = 2 * self._size if prefetch is None else whole_number("prefetch", prefetch, least=1)
        limit = seconds("timeout", timeout)
        until = None if limit is None else time.monotonic() + limit
        under_way: set[Future[Any]] = set()
        source = iter(items)
        try:
            with progress(wanted, items) as shown:
                while True:
                    for item in islice(source, most - len(under_way)):
                        future = self.submit(item)
                        under_way.add(future)
                        take(future)
                        del item, future
                    if not under_way:
                        return
                    under_way.remove(future := _in_time(next_one, until))
                    result = future.result()
                    del future
                    shown.count()
                    yield result
                    del result
        finally:
            for future in under_way:
                future.cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more items. The workers end when those it has are done.

        Args:
            wait: for that. Otherwise the end of the program does, as after a call in a callback of
                a future, which never waits.
            cancel_futures: the items that no worker has begun are cancelled.
        """
        if self._own.shut_down(wait, cancel_futures):
            self._forget_exits()

    def close(self) -> None:
        """`shutdown()`: takes no more items; waits for those it has, and the end of the workers."""
        self.shutdown()

    def terminate(self) -> None:
        """Kills the workers, whatever they are at. What has no result yet is `Closed`.

        It waits for their end, except in a callback of a future.
        """
        if self._own.kill():
            self._forget_exits()

    def _forget_exits(self) -> None:
        atexit.unregister(self._at_exit)
        self._at_child_exit.cancel()

    @property
    def _own(self) -> PoolManager:
        if self._process != os.getpid():
            raise Forked("a worker pool is of the process that made it: the child makes its own")
        return self._manager

    def __reduce__(self) -> tuple[Any, ...]:
        raise cannot_pickle(self, "the child makes its own")

    def __enter__(self) -> WorkerPool[Item, Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._process != os.getpid():
            return  # a child that leaves its parent's block leaves it to the parent
        if kind is not None:
            self.terminate()
            return
        try:
            self.close()
        except BaseException:  # Ctrl-C: nobody waits any more
            self.terminate()
            raise

    def __repr__(self) -> str:
        return f"<tensorbus.WorkerPool workers={self._size}>"


def _end(manager: ref[PoolManager]) -> None:
    """At the end of the program; nothing if the pool's thread has ended."""
    if (living := manager()) is not None:
        living.end_with_the_process()


def _chunks(items: Iterable[Any], size: int) -> Iterable[Chunk]:
    """With a length if the items have one, for a progress bar."""
    source = iter(items)
    chunks = iter(lambda: Chunk([*islice(source, size)]), Chunk([]))
    return [*chunks] if hasattr(items, "__len__") else chunks


def _devices(
    workers: int | None,
    devices: Sequence[Any] | None,
    *functions: Callable[..., Any] | None,
) -> list[Any]:
    """The device of each worker; None for no device."""
    if devices is None:
        count = len(os.sched_getaffinity(0)) if workers is None else workers
        return [None] * whole_number("workers", count, least=1)
    if workers is not None:
        raise InvalidArgument("workers and devices: give one of them; each device has one worker")
    if isinstance(devices, str) or not devices:
        raise InvalidArgument(f"devices={devices!r}: expected a list of devices, at least one")
    for device in devices:
        if isinstance(device, str) and re.match("gpu|cuda", device, re.IGNORECASE):
            ordinal_of(device)  # refuses "gpu" and "CUDA:0", which no library would know
    unknown = [device for device in devices if not str(device).startswith("cuda")]
    if unknown and not any(takes_device(function) for function in functions):
        raise InvalidArgument(
            "devices: neither the function nor the initializer has a parameter `device`, and "
            f"{unknown[0]!r} is no GPU that a worker could have as its current one"
        )
    for device in devices:
        if device not in unknown:
            ordinal_of(device)
    return list(devices)


def _in_time(next_one: Callable[[float | None], Future[Any]], until: float | None) -> Future[Any]:
    limit = None if until is None else max(until - time.monotonic(), 0.0)
    try:
        return next_one(limit)
    except queue.Empty:
        raise Timeout("not all results were there in time") from None
