"""Queues whose tensors go by reference, and are exported by who puts them."""

from __future__ import annotations

import multiprocessing.queues
import queue
from typing import TYPE_CHECKING, Any

from tensorbus.multiprocessing import reductions
from tensorbus.multiprocessing.connection import Pipe

if TYPE_CHECKING:
    _Queue = multiprocessing.queues.Queue[Any]
    _JoinableQueue = multiprocessing.queues.JoinableQueue[Any]
    _SimpleQueue = multiprocessing.queues.SimpleQueue[Any]
else:  # not every Python has them to be subscripted
    _Queue = multiprocessing.queues.Queue
    _JoinableQueue = multiprocessing.queues.JoinableQueue
    _SimpleQueue = multiprocessing.queues.SimpleQueue

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]


class Queue(_Queue):
    """See `multiprocessing.Queue`."""

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:
        super().__init__(maxsize, ctx=ctx or _default())

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Puts any picklable object. What is wrong with it is raised here, not in a thread."""
        exported = reductions.Exported(obj)
        try:
            super().put(exported, block, timeout)
        except (queue.Full, ValueError):
            exported.withdraw()
            raise


class JoinableQueue(_JoinableQueue):
    """See `multiprocessing.JoinableQueue`."""

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:
        super().__init__(maxsize, ctx=ctx or _default())

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """See `Queue.put`."""
        exported = reductions.Exported(obj)
        try:
            super().put(exported, block, timeout)
        except (queue.Full, ValueError):
            exported.withdraw()
            raise


class SimpleQueue(_SimpleQueue):
    """See `multiprocessing.SimpleQueue`."""

    def __init__(self, *, ctx: Any = None) -> None:
        ctx = ctx or _default()
        # All that the standard library's does, but for the ends of its pipe.
        self._reader, self._writer = Pipe(duplex=False)
        self._rlock = ctx.Lock()
        self._poll = self._reader.poll
        self._wlock = ctx.Lock()

    def put(self, obj: Any) -> None:
        """Puts any picklable object."""
        pickled = reductions.dumps(obj)
        with self._wlock:
            self._writer.send_bytes(pickled)


def _default() -> Any:
    from tensorbus.multiprocessing.context import default_context

    return default_context.get_context()
