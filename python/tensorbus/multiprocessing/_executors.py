"""The calls of `concurrent.futures.ProcessPoolExecutor`, by reference.

An executor makes the queue of its calls by itself, of the standard library's class, whatever its
context is. It hands the queue to each process that it has its context start; so there it becomes
one of ours.
"""

from __future__ import annotations

import sys
from functools import cache, cached_property
from typing import Any

from tensorbus.multiprocessing import _carriers, reductions


def call_by_reference(argument: Any) -> None:
    """If this argument of a process is the queue of an executor's calls: they go by reference."""
    executors = sys.modules.get("concurrent.futures.process")
    if executors is not None and type(argument) is executors._SafeQueue:
        argument.__class__ = _call_queue()


@cache
def _call_queue() -> type:
    from concurrent.futures.process import _CallItem, _SafeQueue

    class Call(_CallItem):
        carrier = 0

        def __reduce__(self) -> Any:
            plain = _CallItem(self.work_id, self.fn, self.args, self.kwargs)
            return reductions.loads, (reductions.dumps(plain, self.carrier),)

    class CallQueue(_SafeQueue):
        @cached_property
        def carrier(self) -> int:
            return _carriers.inode_of(self._reader.fileno())  # type: ignore[attr-defined]

        def put(self, obj: Any, *args: Any, **kwargs: Any) -> None:
            if type(obj) is _CallItem:
                obj = Call(obj.work_id, obj.fn, obj.args, obj.kwargs)
                obj.carrier = self.carrier
            super().put(obj, *args, **kwargs)

        def __reduce_ex__(self, protocol: Any) -> Any:  # the processes only take from it
            return _SafeQueue.__new__, (_SafeQueue,), self.__getstate__()

    return CallQueue
