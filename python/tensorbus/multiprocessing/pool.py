"""Pools whose tasks and results pass tensors by reference."""

from __future__ import annotations

import multiprocessing.pool
import pickle
import threading
from multiprocessing.pool import ThreadPool
from typing import Any

from tensorbus._base.errors import Error
from tensorbus.multiprocessing import _carriers, reductions
from tensorbus.multiprocessing._contexts import context_of
from tensorbus.multiprocessing.queues import SimpleQueue

__all__ = ["Pool", "ThreadPool"]

# Seconds between two checks whether a task was taken: the first and the longest interval.
_FIRST_PAUSE = 0.0002
_MAX_PAUSE = 0.005
# The function that a pool of the standard library sends for an iterable that raised an exception.
_reraise = multiprocessing.pool._helper_reraises_exception  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    """Other names of the standard library's module: `AsyncResult`, `RemoteTraceback`, ..."""
    return getattr(multiprocessing.pool, name)


class Pool(multiprocessing.pool.Pool):
    """See `multiprocessing.Pool`. Its queues send tensors and arrays by reference."""

    def __init__(
        self,
        processes: int | None = None,
        initializer: Any = None,
        initargs: Any = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
    ) -> None:
        context = context or context_of(None)
        reductions.learn_libraries()
        super().__init__(processes, initializer, initargs, maxtasksperchild, context)

    def _setup_queues(self) -> None:
        self._inqueue = _Tasks(ctx=self._ctx)  # type: ignore[attr-defined]
        self._outqueue = _Results(ctx=self._ctx)  # type: ignore[attr-defined]
        self._quick_put = self._inqueue.put_task
        self._quick_get = self._outqueue.get_result

    @classmethod
    def _terminate_pool(cls, taskqueue: Any, inqueue: Any, outqueue: Any, *args: Any) -> None:
        inqueue.end()  # the thread that puts tasks may be waiting for a worker
        super()._terminate_pool(taskqueue, inqueue, outqueue, *args)  # type: ignore[misc]
        _carriers.drop(inqueue._writer.carrier, outqueue._writer.carrier)


class _Tasks(SimpleQueue):
    """The tasks. If a worker cannot unpickle a task, the task fails, and the worker continues."""

    def __init__(self, *, ctx: Any = None) -> None:
        super().__init__(ctx=ctx)
        self._is_large = False  # the last task had arrays that went by reference
        self._ended = threading.Event()

    def put_task(self, task: Any) -> None:
        """Puts a task. If the previous task has large arrays, first waits until a worker takes it.

        In the standard library's pools, the capacity of the pipe has the same effect.
        """
        if task is not None and task[2] is not _reraise:
            job, number, function, args, kwargs = task
            self._wait_for_room()
            dumped = reductions.Dumped((function, args, kwargs), self._writer.carrier)
            self._is_large = dumped.own_arrays
            task = job, number, _call, (dumped.pickled,), {}
        self._writer.send_bytes(pickle.dumps(task))

    def end(self) -> None:
        """Ends a waiting `put_task`."""
        self._ended.set()

    def _wait_for_room(self) -> None:
        pause = _FIRST_PAUSE
        while self._is_large and self._reader.poll():
            if self._ended.wait(pause):
                return
            pause = min(2 * pause, _MAX_PAUSE)


def _call(pickled: bytes) -> Any:
    try:
        function, args, kwargs = reductions.loads(pickled)
    except Exception:
        raise
    except BaseException as error:  # for example SystemExit of an import, which ends the worker
        raise Error(f"a task cannot be unpickled: {error!r}") from error
    return function(*args, **kwargs)


class _Results(SimpleQueue):
    """The results. A result that cannot be unpickled fails only its own task."""

    def put(self, obj: Any) -> None:
        if obj is not None:
            job, number, (succeeded, value) = obj
            pickled = reductions.dumps(value, self._writer.carrier)
            obj = job, number, (succeeded, pickled)
        with self._wlock:
            self._writer.send_bytes(pickle.dumps(obj))

    def get_result(self) -> Any:
        """The next result, or the error of unpickling it."""
        result = self._reader.recv()
        if result is None:
            return None
        job, number, (succeeded, pickled) = result
        try:
            return job, number, (succeeded, reductions.loads(pickled))
        except BaseException as error:  # for example SystemExit of an import
            return job, number, (False, error)
