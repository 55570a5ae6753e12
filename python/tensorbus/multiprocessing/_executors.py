"""Calls of `concurrent.futures.ProcessPoolExecutor` by reference.

An executor makes its call queue with the standard library's class, with any context. It passes the
queue to each process that its context starts; the constructor of the process replaces the queue's
class.
"""

from __future__ import annotations

import sys
from functools import cache, cached_property
from typing import Any

from tensorbus.multiprocessing import _carriers, reductions


def call_by_reference(argument: Any) -> None:
    """Makes calls pass tensors by reference, if this argument of a process is a call queue."""
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

        def __reduce_ex__(self, protocol: Any) -> Any:  # a plain queue: the workers only get
            return _SafeQueue.__new__, (_SafeQueue,), self.__getstate__()

    return CallQueue
