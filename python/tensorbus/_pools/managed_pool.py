"""The workers of a pool as a program controls them: their number, their counters, their end."""

from __future__ import annotations

import atexit
import os
from concurrent.futures import Executor
from functools import partial
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any
from weakref import ref

from tensorbus._base.arguments import seconds, whole_number
from tensorbus._base.closing import cannot_pickle
from tensorbus._base.errors import Forked, InvalidArgument
from tensorbus._base.stats import PoolStats
from tensorbus._pools.pool_manager import PoolManager

if TYPE_CHECKING:
    from typing_extensions import Self


class ManagedPool(Executor):
    """Base of `WorkerPool`."""

    def _manage(self, manager: PoolManager, *, has_devices: bool) -> None:
        """Takes the manager, and ends it at the end of the program."""
        self._process = os.getpid()
        self._manager = manager
        self._has_devices = has_devices
        # Both run before multiprocessing joins its processes at exit. The finalizer is for children
        # of multiprocessing, which do not run the handlers of atexit.
        self._at_exit = partial(_end, ref(manager))
        atexit.register(self._at_exit)
        self._at_child_exit = Finalize(None, self._at_exit, exitpriority=0)

    def ready(self, timeout: float | None = None) -> bool:
        """Waits until every worker has run its initializer; False after `timeout` seconds.

        In a callback of a future it does not wait.

        Raises:
            Closed: the pool is closed.
            WorkerDied: a worker died six times in a row before it was ready.
            BaseException: the initializer raised it.

        >>> from tensorbus import WorkerPool
        >>> with WorkerPool(len, workers=1) as pool:
        ...     pool.ready(timeout=60)
        True
        """
        return self._own.wait_until_ready(seconds("timeout", timeout))

    @property
    def stats(self) -> PoolStats:
        """Counters of the pool's items and workers, and how long items wait and run."""
        return self._own.stats

    def resize(self, workers: int) -> None:
        """Changes the number of workers; it does not wait until they have started or ended.

        If workers are too many, those end first that are not ready, then idle ones; busy ones end
        after their current item or batch. No item is lost.

        Args:
            workers: the new number, at least 1.

        Raises:
            InvalidArgument: `workers` is not a whole number of at least 1, or the pool was made
                with `devices`.
            Closed: the pool is closed.

        >>> from tensorbus import WorkerPool
        >>> with WorkerPool(len, workers=1) as pool:
        ...     pool.resize(2)
        ...     pool.ready(timeout=60), pool.stats.workers
        (True, 2)
        """
        if self._has_devices:
            raise InvalidArgument("resize: a pool with devices has one worker for each of them")
        self._own.resize(whole_number("workers", workers, low=1))

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

    def __enter__(self) -> Self:
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


def _end(manager: ref[PoolManager]) -> None:
    """Ends a pool at the end of the program, if it still exists."""
    if (living := manager()) is not None:
        living.end_with_the_process()
