"""Pools whose work and results go by reference."""

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

# Seconds between two looks whether a task was taken: at first, and at most.
_LOOK = 0.0002
_LONG_LOOK = 0.005
# It is pickled by name, and known to the pool: it raises as it is.
_reraise = multiprocessing.pool._helper_reraises_exception  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    """What is the same there: the states of a pool, `AsyncResult`, `RemoteTraceback`, ..."""
    return getattr(multiprocessing.pool, name)


class Pool(multiprocessing.pool.Pool):
    """See `multiprocessing.Pool`; its queues are those of our context."""

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
        inqueue.end()  # its thread may wait for a worker
        super()._terminate_pool(taskqueue, inqueue, outqueue, *args)  # type: ignore[misc]
        _carriers.drop(inqueue._writer.carrier, outqueue._writer.carrier)


class _Tasks(SimpleQueue):
    """The tasks. What a worker cannot unpickle is the result of its task, and not its end."""

    def __init__(self, *, ctx: Any = None) -> None:
        super().__init__(ctx=ctx)
        self._is_large = False  # had the task that was put last arrays that went by reference?
        self._ended = threading.Event()

    def put_task(self, task: Any) -> None:
        """Puts a task, when a worker has taken the one before, if that has large arrays.

        A pipe holds the standard library's pools back in the same way.
        """
        if task is not None and task[2] is not _reraise:
            job, number, function, args, kwargs = task
            self._wait_for_room()
            dumped = reductions.Dumped((function, args, kwargs), self._writer.carrier)
            self._is_large = dumped.own_arrays
            task = job, number, _call, (dumped.pickled,), {}
        self._writer.send_bytes(pickle.dumps(task))

    def end(self) -> None:
        """Nothing waits any more."""
        self._ended.set()

    def _wait_for_room(self) -> None:
        pause = _LOOK
        while self._is_large and self._reader.poll():
            if self._ended.wait(pause):
                return
            pause = min(2 * pause, _LONG_LOOK)


def _call(pickled: bytes) -> Any:
    try:
        function, args, kwargs = reductions.loads(pickled)
    except Exception:
        raise
    except BaseException as error:  # an import in it called sys.exit; it would end the worker
        raise Error(f"a task cannot be unpickled: {error!r}") from error
    return function(*args, **kwargs)


class _Results(SimpleQueue):
    """The results. One that cannot be unpickled fails its task alone."""

    def put(self, obj: Any) -> None:
        if obj is not None:
            job, number, (succeeded, value) = obj
            pickled = reductions.dumps(value, self._writer.carrier)
            obj = job, number, (succeeded, pickled)
        with self._wlock:
            self._writer.send_bytes(pickle.dumps(obj))

    def get_result(self) -> Any:
        """What `put` was given."""
        result = self._reader.recv()
        if result is None:
            return None
        job, number, (succeeded, pickled) = result
        try:
            return job, number, (succeeded, reductions.loads(pickled))
        except BaseException as error:  # of an import that calls sys.exit, too
            return job, number, (False, error)
