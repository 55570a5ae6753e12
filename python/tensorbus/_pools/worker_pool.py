"""Worker pools: a function in many processes, with tensors by reference."""

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
from tensorbus._pools.worker_process import StartOptions


@public
class WorkerPool(Executor, Generic[Item, Result]):
    """Processes that call a function with items: one for each core, or one for each device.

    It is a `concurrent.futures.Executor`. Without a function it has `submit(function, ...)` and
    `map(function, ...)` of that class, for `loop.run_in_executor` and other code that needs an
    executor.

    Items and results are any objects that can be pickled; their tensors are sent by reference. A
    worker has one item at a time. A worker that dies (by a signal, or `os._exit`) is replaced.

    The end of a `with` block waits for all submitted items; if an exception leaves the block, it
    kills the workers at once. A worker that is still in its initializer is killed in both cases.
    All workers end when this process ends, even if it is killed.

    Args:
        function: called with each item; `None`: each `submit` passes a function. A worker that is
            not forked imports the function by name: it cannot be a lambda, and the program must
            start under `if __name__ == "__main__":`. If the function has a parameter `device`, the
            worker passes its device.
        workers: the number of workers; by default one for each core that this process may use.
        devices: one worker for each device. A device is any object that can be pickled, for example
            "cuda:0" or `torch.device("cpu")`. A GPU becomes the current device of its worker:
            "cuda" means that GPU, in PyTorch too. Ordinals are those of the pool's process.
        initializer: called once in each worker, with the worker's device if it has a parameter
            `device`. Its result is the first argument of each call of `function`; without a
            function it is unused.
        retries: how many more times an item is tried if its worker dies. With 0, the item is not
            run again, and its result is `WorkerDied`.
        context: how processes are started: "spawn", "forkserver", "fork", or a context of
            `multiprocessing`.
        access: the access to tensors of results in this process, and of items in the workers, see
            `tensorbus.Subscriber`; `None` is "copy-on-write". With "shared", writes are visible to
            this process and the worker, and `submit` moves the memory of an ordinary torch tensor
            into shared memory, like `Queue(shared=True)`.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: there is no worker, a device is "gpu" instead of "cuda", or devices are not
            GPUs while neither `function` nor `initializer` has a parameter `device`.
        OutOfMemory: no worker can be started; the message names the limits.
        Exception: pickling the functions raised it.

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
    @overload  # the function has more parameters: `device`, or the initializer's result
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
            jobs, StartOptions(context, access, domain), whole_number("retries", retries, low=0)
        )
        self._size = len(jobs)
        # Both run before multiprocessing joins its processes at exit. The finalizer is for children
        # of multiprocessing, which do not run the handlers of atexit.
        self._at_exit = partial(_end, ref(self._manager))
        atexit.register(self._at_exit)
        self._at_child_exit = Finalize(None, self._at_exit, exitpriority=0)

    @overload
    def submit(self, item: Item, /) -> Future[Result]: ...
    @overload  # of a pool without a function
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]: ...
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future result: `submit(item)`; without a function, `submit(fn, *args, **kwargs)`.

        The item or arguments are pickled when a worker takes them: do not change them before that.
        Until then the future can be cancelled. The exception of the future may be an exception of
        the function, with the worker's traceback as its cause; an error of pickling; `WorkerDied`;
        or `Closed` after `terminate`.

        Raises:
            Closed: the pool is closed.
            TypeError: it got more than one argument, in a pool that has a function.
            WorkerDied: each worker died six times in a row before it was ready.
            BaseException: the initializer raised it.
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
        """The list of the results of all items, in order: `map(items)`.

        Without a function, `map(fn, *iterables)` is the method of `concurrent.futures.Executor`: it
        takes all arguments at once, and returns an iterator that may raise `TimeoutError`.

        Args:
            items: any iterable; its items are taken when they are needed, see `imap`.
            timeout: seconds for the whole call.
            chunksize: how many items a worker takes at once; larger chunks are faster for small
                items. If one item fails, all items of its chunk fail.
            progress: show a bar on stderr after two seconds; None: only if stderr is a terminal and
                `rich` is installed.

        Raises:
            Timeout: the time has passed; items that no worker has begun are dropped.
            TypeError: it got more than one iterable, in a pool that has a function.
            Exception: the exception of the first failed item, as in the future of `submit`. The
                remaining items are dropped.
        """
        size = whole_number("chunksize", chunksize, low=1)
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
        lists: Iterator[Any] = self.imap(chunked, timeout=timeout, progress=progress)
        return [*chain.from_iterable(lists)]

    def imap(
        self,
        items: Iterable[Item],
        *,
        prefetch: int | None = None,
        timeout: float | None = None,
        progress: bool | None = None,
    ) -> Iterator[Result]:
        """An iterator over the results, in the order of the items. The first `next` starts it.

        Args:
            items: any iterable, possibly infinite.
            prefetch: the maximum of submitted items whose results the caller has not taken yet; by
                default two for each worker.
            timeout: seconds for all items together, from the first `next`, including the time that
                the caller spends between results.
            progress: see `map`.

        Raises:
            TypeError: the pool has no function.
            Exception: like `map`.
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
        """An iterator over the results, in the order in which they are done; else like `imap`."""
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
        if prefetch is None:
            prefetch = 2 * self._size
        prefetch = whole_number("prefetch", prefetch, low=1)
        limit = seconds("timeout", timeout)
        deadline = None if limit is None else time.monotonic() + limit
        pending: set[Future[Any]] = set()
        source = iter(items)
        try:
            with progress(wanted, items) as shown:
                while True:
                    for item in islice(source, prefetch - len(pending)):
                        future = self.submit(item)
                        pending.add(future)
                        take(future)
                        del item, future
                    if not pending:
                        return
                    pending.remove(future := _in_time(next_one, deadline))
                    result = future.result()
                    del future
                    shown.count()
                    yield result
                    del result
        finally:
            for future in pending:
                future.cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuses new items. The workers end when all submitted items are done.

        Args:
            wait: wait for the workers. With `False`, the end of the program waits for them. A call
                in a callback of a future never waits.
            cancel_futures: cancel the items that no worker has begun.
        """
        if self._own.shut_down(wait, cancel_futures):
            self._forget_exits()

    def close(self) -> None:
        """`shutdown()`: refuses new items, and waits for submitted items and for the workers."""
        self.shutdown()

    def terminate(self) -> None:
        """Kills the workers. Items without a result get the exception `Closed`.

        It waits until the workers have ended, except in a callback of a future.
        """
        if self._own.kill():
            self._forget_exits()

    def _forget_exits(self) -> None:
        atexit.unregister(self._at_exit)
        self._at_child_exit.cancel()

    @property
    def _own(self) -> PoolManager:
        if self._process != os.getpid():
            raise Forked("this worker pool was made before fork(): make a new one in the child")
        return self._manager

    def __reduce__(self) -> tuple[Any, ...]:
        raise cannot_pickle(self, "make it in the child")

    def __enter__(self) -> WorkerPool[Item, Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._process != os.getpid():
            return  # a forked child that leaves its parent's block closes nothing
        if kind is not None:
            self.terminate()
            return
        try:
            self.close()
        except BaseException:  # Ctrl-C ends the wait
            self.terminate()
            raise

    def __repr__(self) -> str:
        return f"<tensorbus.WorkerPool workers={self._size}>"


def _end(manager: ref[PoolManager]) -> None:
    """Ends a pool at the end of the program, if it still exists."""
    if (living := manager()) is not None:
        living.end_with_the_process()


def _chunks(items: Iterable[Any], size: int) -> Iterable[Chunk]:
    """The chunks: a list, which a progress bar needs, if the items have a length."""
    source = iter(items)
    chunks = iter(lambda: Chunk([*islice(source, size)]), Chunk([]))
    return [*chunks] if hasattr(items, "__len__") else chunks


def _devices(
    workers: int | None,
    devices: Sequence[Any] | None,
    *functions: Callable[..., Any] | None,
) -> list[Any]:
    """The device of each worker, or None for a worker without a device."""
    if devices is None:
        count = len(os.sched_getaffinity(0)) if workers is None else workers
        return [None] * whole_number("workers", count, low=1)
    if workers is not None:
        raise InvalidArgument("workers and devices: give one of them; each device has one worker")
    if isinstance(devices, str) or not devices:
        raise InvalidArgument(f"devices={devices!r}: expected a list of devices, at least one")
    for device in devices:
        if isinstance(device, str) and re.match("gpu|cuda", device, re.IGNORECASE):
            ordinal_of(device)  # refuses "gpu" and "CUDA:0", which no library accepts
    unknown = [device for device in devices if not str(device).startswith("cuda")]
    if unknown and not any(takes_device(function) for function in functions):
        raise InvalidArgument(
            "devices: neither the function nor the initializer has a parameter `device`, and "
            f"{unknown[0]!r} is not a GPU that can be the current device of a worker"
        )
    for device in devices:
        if device not in unknown:
            ordinal_of(device)
    return list(devices)


def _in_time(
    next_one: Callable[[float | None], Future[Any]], deadline: float | None
) -> Future[Any]:
    limit = None if deadline is None else max(deadline - time.monotonic(), 0.0)
    try:
        return next_one(limit)
    except queue.Empty:
        raise Timeout("not all results arrived in time") from None
