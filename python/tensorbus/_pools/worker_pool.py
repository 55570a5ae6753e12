"""Worker pools: a function in many processes, with tensors by reference."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import chain
from multiprocessing.context import BaseContext
from typing import Any, Generic, overload

from tensorbus._base.arguments import Access, access_named, seconds, whole_number
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.generics import Item, Result
from tensorbus._base.public import public
from tensorbus._pools.batches import Limits
from tensorbus._pools.devices import devices_of
from tensorbus._pools.managed_pool import ManagedPool
from tensorbus._pools.pool_manager import PoolManager
from tensorbus._pools.results import (
    AsDone,
    Futures,
    InOrder,
    Submitting,
    chunks_of,
    results_of,
)
from tensorbus._pools.rules import Rules
from tensorbus._pools.worker import Call, Job, call_all, call_it
from tensorbus._pools.worker_process import StartOptions
from tensorbus._queues.receives import Receives
from tensorbus._tensors.library import Library, library_or_none


@public
class WorkerPool(ManagedPool, Generic[Item, Result]):
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
        batch: call the function with up to so many items at once, see docs/worker_pool.md. Items
            that are tensors of one shape, dtype and library arrive as one tensor of shape
            (n, *shape); dicts with the same keys, and tuples of the same length, value by value;
            all others as a list. The function returns the same form: a tensor or an array with a
            row for each item, a dict or a tuple of these, or a list with a result, or an exception,
            for each item.
        max_wait: with `batch`, seconds from the submission of an item for which an idle worker
            waits for further items. With 0, it gets the items that wait already.
        initializer: called once in each worker, with the worker's device if it has a parameter
            `device`. Its result is the first argument of each call of `function`; without a
            function it is unused.
        retries: how many more times an item is tried if its worker dies. With 0, the item is not
            run again, and its result is `WorkerDied`.
        run_timeout: seconds for a call of the function. A worker whose call takes longer is killed
            and replaced, and the result of its item is `RunTimeout`. The items of a batch, of which
            any may be at fault, are tried again one by one, each up to `retries` times. `None` for
            no limit; the initializer has none.
        max_waiting: how many items may wait that no worker has. `submit` then raises `queue.Full`
            at once; `map` and `imap` wait for room. `None` for no limit.
        context: how processes are started: "spawn", "forkserver", "fork", or a context of
            `multiprocessing`.
        access: the access to tensors of results in this process, and of items in the workers, see
            `tensorbus.Subscriber`; `None` is "copy-on-write". With "shared", writes are visible to
            this process and the worker, and `submit` moves the memory of an ordinary torch tensor
            into shared memory, like `Queue(shared=True)`.
        library: the library of the tensors of items that the function gets, see
            `tensorbus.Subscriber`; those of results keep theirs. With it, items of PyTorch and of
            NumPy are stacked in one batch.
        pin: workers pin the main memory of items for GPUs, see `Queue`. Each worker starts CUDA. If
            a worker cannot pin, it fails with `Unsupported`, like a worker whose initializer fails.
        pin_results: this process pins the main memory of results for GPUs. It starts CUDA, so
            workers that are forked cannot use CUDA.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: there is no worker, a device is "gpu" instead of "cuda", devices are not
            GPUs while neither `function` nor `initializer` has a parameter `device`, `batch` is
            given without a function or with access="shared", `run_timeout` is not a number above 0,
            `max_waiting` is less than `batch`, `library` is none of those, or access is "private"
            with `pin` or `pin_results`.
        TypeError: `function` or `initializer` cannot be called.
        OutOfMemory: no worker can be started; the message names the limits.
        Unsupported: workers that are not forked cannot import the functions, because a cell of a
            notebook, for example, has defined them; the message names the remedy. Or no GPU of this
            machine supports `pin_results`.
        Exception: pickling the functions raised it.

    >>> with WorkerPool(len, workers=1) as pool:
    ...     pool.map(["a", "bc", "def"])
    [1, 2, 3]
    >>> with WorkerPool(workers=1) as pool:
    ...     pool.submit(divmod, 7, 2).result()
    (3, 1)
    >>> import numpy as np
    >>> with WorkerPool(np.negative, workers=1, batch=8, max_wait=0.005) as pool:
    ...     pool.map([np.ones(2), np.zeros(2)])
    [array([-1., -1.]), array([-0., -0.])]
    """

    @overload
    def __init__(
        self,
        function: Callable[[Item], Result],
        *,
        workers: int | None = None,
        devices: Sequence[Any] | None = None,
        batch: None = None,
        initializer: None = None,
        retries: int = 0,
        run_timeout: float | None = None,
        max_waiting: int | None = None,
        context: str | BaseContext = "spawn",
        access: Access | None = None,
        library: Library | None = None,
        pin: bool = False,
        pin_results: bool = False,
        domain: str | None = None,
    ) -> None: ...
    @overload  # the function has more parameters: `device`, or the initializer's result
    def __init__(
        self,
        function: Callable[..., Result] | None = None,
        *,
        workers: int | None = None,
        devices: Sequence[Any] | None = None,
        batch: None = None,
        initializer: Callable[..., Any] | None = None,
        retries: int = 0,
        run_timeout: float | None = None,
        max_waiting: int | None = None,
        context: str | BaseContext = "spawn",
        access: Access | None = None,
        library: Library | None = None,
        pin: bool = False,
        pin_results: bool = False,
        domain: str | None = None,
    ) -> None: ...
    @overload  # its parameter and its result are batches, whose items may have any type
    def __init__(
        self: WorkerPool[Any, Any],
        function: Callable[..., Any],
        *,
        workers: int | None = None,
        devices: Sequence[Any] | None = None,
        batch: int,
        max_wait: float = 0.0,
        initializer: Callable[..., Any] | None = None,
        retries: int = 0,
        run_timeout: float | None = None,
        max_waiting: int | None = None,
        context: str | BaseContext = "spawn",
        access: Access | None = None,
        library: Library | None = None,
        pin: bool = False,
        pin_results: bool = False,
        domain: str | None = None,
    ) -> None: ...
    def __init__(
        self,
        function: Callable[..., Result] | None = None,
        *,
        workers: int | None = None,
        devices: Sequence[Any] | None = None,
        batch: int | None = None,
        max_wait: float = 0.0,
        initializer: Callable[..., Any] | None = None,
        retries: int = 0,
        run_timeout: float | None = None,
        max_waiting: int | None = None,
        context: str | BaseContext = "spawn",
        access: Access | None = None,
        library: Library | None = None,
        pin: bool = False,
        pin_results: bool = False,
        domain: str | None = None,
    ) -> None:
        for name, given in (("function", function), ("initializer", initializer)):
            if given is not None and not callable(given):
                raise TypeError(f"{name}={given!r}: expected a function, or None")
        if access is not None:
            access_named(access)
        if pin and access == "private":
            raise InvalidArgument('pin: with access="private" each item has pages of its own')
        Receives(access, None, pin_results).require_pinning()
        rules = Rules(retries, Limits(batch, max_wait), run_timeout, max_waiting)
        if batch is not None:
            _check_batch(function, access)
        self._function = function
        self._is_batched = batch is not None
        self._batch = batch or 1
        called = call_it if function is None else function
        if isinstance(context, str):
            context = multiprocessing.get_context(context)
        jobs = [
            Job(called, initializer, device)
            for device in devices_of(workers, devices, called, initializer)
        ]
        manager = PoolManager(
            jobs,
            StartOptions(context, access, library_or_none(library), pin, pin_results, domain),
            rules,
        )
        self._manage(manager, has_devices=devices is not None)

    @overload
    def submit(
        self, item: Item, /, *, priority: int = 0, timeout: float | None = None
    ) -> Future[Result]: ...
    @overload  # of a pool without a function
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]: ...
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future result: `submit(item)`; without a function, `submit(fn, *args, **kwargs)`.

        The item or arguments are pickled when a worker takes them: do not change them before that.
        Until then the future can be cancelled. The exception of the future may be an exception of
        the function, with the worker's traceback as its cause; an error of pickling; `WorkerDied`;
        `RunTimeout`; `Timeout`; or `Closed` after `terminate`.

        Args:
            priority: of an item: those with a higher number are given to workers earlier. Items
                with the same priority are given in the order of submission.
            timeout: of an item: seconds for a worker to begin it. After that it is dropped, and its
                future raises `Timeout`. `None` for no limit.

        Raises:
            Closed: the pool is closed.
            queue.Full: `max_waiting` items wait.
            TypeError: it got further arguments, in a pool that has a function.
            InvalidArgument: the priority is not a whole number of 32 bits.
            WorkerDied: each worker died six times in a row before it was ready.
            BaseException: the initializer raised it.
        """
        if self._function is None:
            return self._own.submit(Call(fn, args, kwargs))
        if args or kwargs.keys() - {"priority", "timeout"}:
            raise TypeError(
                "submit() of a pool with a function takes one item; its keywords are priority and "
                "timeout. WorkerPool() without a function takes a function and its arguments"
            )
        return self._submit(fn, **kwargs)

    def _submit(self, item: Any, priority: int = 0, timeout: float | None = None) -> Future[Any]:
        if priority != 0:
            priority = whole_number("priority", priority, low=-(2**31), high=2**31 - 1)
        return self._own.submit(item, priority, seconds("timeout", timeout))

    def _submit_in_time(self, item: Any, deadline: float) -> Future[Any]:
        return self._own.submit_in_time(item, deadline)

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
                items. If one item fails, all items of its chunk fail. A pool with `batch` has none.
            progress: show a bar on stderr after two seconds; None: only if stderr is a terminal and
                `rich` is installed.

        Raises:
            Timeout: the time has passed; items that no worker has begun are dropped. With
                `max_waiting` it may come from the call itself.
            TypeError: it got more than one iterable, in a pool that has a function.
            Exception: the exception of the first failed item, as in the future of `submit`. The
                remaining items are dropped.
        """
        size = whole_number("chunksize", chunksize, low=1)
        if self._function is None:
            if progress:
                raise TypeError("map() of a pool without a function has no progress bar")
            submitting = Submitting(self._submit_in_time, seconds("timeout", timeout))
            if size == 1:
                return submitting.map(fn, *iterables, timeout=timeout)
            calls = chunks_of((Call(fn, each, {}) for each in zip(*iterables, strict=False)), size)
            return chain.from_iterable(submitting.map(call_all, calls, timeout=timeout))
        if iterables:
            raise TypeError("map() of a pool with a function takes its items alone")
        if size == 1:
            return list(self.imap(fn, timeout=timeout, progress=progress))
        if self._is_batched:
            raise TypeError("map() of a pool with batch= has no chunksize: workers get batches")
        chunked: Iterable[Any] = chunks_of(fn, size)
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
                default two for each worker, and two batches with `batch`.
            timeout: seconds for all items together, from the first `next`, including the time that
                the caller spends between results.
            progress: see `map`.

        Raises:
            TypeError: the pool has no function.
            Exception: like `map`.
        """
        return self._results(items, InOrder(), prefetch, timeout, progress)

    def imap_unordered(
        self,
        items: Iterable[Item],
        *,
        prefetch: int | None = None,
        timeout: float | None = None,
        progress: bool | None = None,
    ) -> Iterator[Result]:
        """An iterator over the results, in the order in which they are done; else like `imap`."""
        return self._results(items, AsDone(), prefetch, timeout, progress)

    def _results(
        self,
        items: Iterable[Any],
        futures: Futures,
        prefetch: int | None,
        timeout: float | None,
        progress: bool | None,
    ) -> Iterator[Any]:
        if self._function is None:
            raise TypeError(
                "a pool without a function has submit() and map(): WorkerPool(function)"
            )
        if prefetch is None:
            prefetch = 2 * self._own.size * self._batch
        return results_of(
            items,
            self._submit_in_time,
            futures,
            prefetch=prefetch,
            timeout=timeout,
            wanted=progress,
        )

    def __repr__(self) -> str:
        return f"<tensorbus.WorkerPool workers={self._manager.size}>"


def _check_batch(function: Any, access: Access | None) -> None:
    if function is None:
        raise InvalidArgument(
            "batch: only a pool with a function has batches: WorkerPool(function)"
        )
    if access == "shared":
        raise InvalidArgument(
            "batch and access='shared': items are copied into a batch, so this process would not "
            "see what the function writes to them"
        )
