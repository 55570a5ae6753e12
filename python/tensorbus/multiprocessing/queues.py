"""Queues whose tensors go by reference, and are exported by who puts them."""

from __future__ import annotations

import multiprocessing.context
import multiprocessing.queues
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tensorbus._queues.queue as ours
from tensorbus.multiprocessing import reductions
from tensorbus.multiprocessing._contexts import context_of
from tensorbus.multiprocessing.connection import Pipe

if TYPE_CHECKING:
    _SimpleQueue = multiprocessing.queues.SimpleQueue[Any]
else:  # not every Python has it to be subscripted
    _SimpleQueue = multiprocessing.queues.SimpleQueue

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]


# Those that this process has made. Whatever process is forked has them all.
_made: weakref.WeakSet[Queue] = weakref.WeakSet()


class _Leaving(threading.local):
    """Those that this thread pickles for a process that it starts."""

    def __init__(self) -> None:
        self.queues: list[Queue] = []


_leaving = _Leaving()


@contextmanager
def queues_of_child(method: str) -> Iterator[list[Queue]]:
    """While a process is started: in the end, the queues that it has and that must not go first."""
    found = list(_made) if method == "fork" else []
    outer, _leaving.queues = _leaving.queues, found
    try:
        yield found
    finally:
        _leaving.queues = outer


class Queue(ours.Queue):
    """See `multiprocessing.Queue`: a `tensorbus.Queue` whose tensors may be written to by all.

    It lives in the process that made it. There is no thread that feeds it: what `put` returns from
    is in the queue, and what is wrong with an item is raised there.
    """

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:
        reductions.learn_libraries()
        super().__init__(max(maxsize, 0), shared=True)
        _made.add(self)

    def put(
        self,
        item: Any,
        block: bool = True,
        timeout: float | None = None,
        *,
        stream: Any = None,
    ) -> None:
        """Puts any picklable object in; see `tensorbus.Queue.put`."""
        self._require_open()
        super().put(item, block, timeout, stream=stream)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Takes the oldest item; see `tensorbus.Queue.get`."""
        self._require_open()
        item = super().get(block, timeout)
        reductions.learn_libraries()  # it may have brought PyTorch
        return item

    def close(self, timeout: float | None = 0) -> None:
        """This process does not use it any more; others may, as long as its maker has it.

        Nothing is dropped, so there is nothing to wait for: `timeout` changes nothing.
        """
        self._left = True

    def __exit__(self, kind: object = None, *_: object) -> None:
        self.close()

    def join_thread(self) -> None:
        """Nothing to wait for: there is no thread."""

    def cancel_join_thread(self) -> None:
        """Nothing to cancel: there is no thread."""

    _left = False

    def _require_open(self) -> None:
        if self._left:
            raise ValueError(f"{self!r} is closed")

    def __reduce__(self) -> tuple[Any, ...]:
        if multiprocessing.context.get_spawning_popen() is not None:
            _leaving.queues.append(self)
        return _reopen, (type(self), *super().__reduce__()[1])


class JoinableQueue(Queue):
    """See `multiprocessing.JoinableQueue`; `tensorbus.Queue` has what makes it one."""


class SimpleQueue(_SimpleQueue):
    """See `multiprocessing.SimpleQueue`: a pipe, so that it can be waited for."""

    def __init__(self, *, ctx: Any = None) -> None:
        ctx = ctx or context_of(None)
        # All that the standard library's does, but for the ends of its pipe.
        self._reader, self._writer = Pipe(duplex=False)
        self._rlock = ctx.Lock()
        self._poll = self._reader.poll
        self._wlock = ctx.Lock()

    def put(self, obj: Any) -> None:
        """Puts any picklable object."""
        dumped = reductions.Dumped(obj, self._writer.carrier)
        try:
            with self._wlock:
                self._writer.send_bytes(dumped.pickled)
        except OSError:
            dumped.withdraw()
            raise


def _reopen(kind: type[Queue], address: str, domain: str, name: str = "") -> Queue:
    opened = kind.open(address, domain=domain)
    assert isinstance(opened, Queue)
    opened._name = name
    return opened
