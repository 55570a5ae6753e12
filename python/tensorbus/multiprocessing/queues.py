"""The standard library's queues, whose tensors and arrays go by reference.

An item is pickled by `reductions.dumps`, in the order of the puts: in the feeder thread of a
`Queue`, in the caller of `SimpleQueue.put`. What the pipe carries of an item with tensors is the
handle of a message that holds them.
"""

from __future__ import annotations

import multiprocessing.queues as standard
import os
import select
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tensorbus.multiprocessing import connection, reductions
from tensorbus.multiprocessing._contexts import context_of

if TYPE_CHECKING:
    _Queue = standard.Queue[Any]
    _JoinableQueue = standard.JoinableQueue[Any]
    _SimpleQueue = standard.SimpleQueue[Any]
else:  # not every Python has them to be subscripted
    _Queue, _JoinableQueue = standard.Queue, standard.JoinableQueue
    _SimpleQueue = standard.SimpleQueue

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]


class _Reader(connection.Connection):
    """The end of a queue's pipe that receives.

    Messages may wait in the pipe when the last process that could receive them closes this end.
    That process drops them: otherwise the memory of their tensors would stay in use.
    """

    def _close(self) -> None:
        pipe = -1
        with suppress(Exception):  # it may be collected while the interpreter ends
            if _events(self._handle, select.POLLIN):
                pipe = os.open(_path(self._handle), os.O_WRONLY | os.O_NONBLOCK)
        super()._close()  # type: ignore[misc]
        if pipe >= 0:
            with suppress(Exception):
                _drop_unreadable(pipe)
            os.close(pipe)


def _drop_unreadable(pipe: int) -> None:
    """If no process has the receiving end of a pipe any more: drops what waits in it."""
    if not _events(pipe, 0) & select.POLLERR:
        return
    reader = os.open(_path(pipe), os.O_RDONLY | os.O_NONBLOCK)
    with connection.Connection(reader, writable=False) as last:
        while last.poll():
            reductions.discard(last.recv_bytes())


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _events(descriptor: int, wanted: int) -> int:
    poll = select.poll()
    poll.register(descriptor, wanted)
    return sum(found for _, found in poll.poll(0))


ForkingPickler.register(_Reader, connection._reduce)


class _OnStreams:
    """An item, and the CUDA streams that were current in the thread that put it."""

    def __init__(self, item: Any, streams: list[Any]) -> None:
        self.item = item
        self._streams = streams

    def dumps(self) -> bytes:
        with ExitStack() as stack:
            for stream in self._streams:
                stack.enter_context(sys.modules["torch"].cuda.stream(stream))
            return reductions.dumps(self.item)


# What the feeder calls in place of the standard library's ForkingPickler.
class _Pickler:
    @staticmethod
    def dumps(item: Any) -> bytes:
        return item.dumps() if type(item) is _OnStreams else reductions.dumps(item)


# Of these no stream matters; to ask for it would take a third of what `put` takes.
_LEAVES = frozenset({type(None), bool, int, float, str, bytes})


def _on_streams(item: Any) -> Any:
    """The item, with the current streams unless all of them are the default ones."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return item
    devices = range(torch.cuda.device_count())
    streams = [torch.cuda.current_stream(device) for device in devices]
    default = all(streams[device] == torch.cuda.default_stream(device) for device in devices)
    return item if default else _OnStreams(item, streams)


def _with_names(function: Any, **names: Any) -> Any:
    """A function of the standard library's, in which these names of its module mean others."""
    known = {**function.__globals__, **names}
    return FunctionType(function.__code__, known, function.__name__, function.__defaults__)


class Queue(_Queue):
    """See `multiprocessing.Queue`; tensors and arrays in its items go by reference."""

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:
        reductions.learn_libraries()
        super().__init__(maxsize, ctx=ctx or context_of(None))

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Puts any picklable object; the feeder thread pickles it."""
        _Queue.put(self, obj if type(obj) in _LEAVES else _on_streams(obj), block, timeout)

    def _reset(self, after_fork: bool = False) -> None:
        _take_over(self)
        super()._reset(after_fork)  # type: ignore[misc]

    def _start_thread(self) -> None:
        _start_thread(self)

    @staticmethod
    def _feed(*arguments: Any) -> None:
        *others, on_error, semaphore = arguments

        def on_error_of_item(error: Exception, item: Any) -> None:
            on_error(error, item.item if type(item) is _OnStreams else item)

        _feed(*others, on_error_of_item, semaphore)


# The standard library's, but that items are pickled by `_Pickler`.
_feed: Callable[..., None] = _with_names(_Queue._feed, _ForkingPickler=_Pickler)
# The standard library's, but that its thread runs `Queue._feed` of this module.
_start_thread: Callable[[Queue], None] = _with_names(_Queue._start_thread, Queue=Queue)


class JoinableQueue(Queue, _JoinableQueue):
    """See `multiprocessing.JoinableQueue`; tensors and arrays in its items go by reference."""

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Puts any picklable object; the feeder thread pickles it."""
        item = obj if type(obj) in _LEAVES else _on_streams(obj)
        _JoinableQueue.put(self, item, block, timeout)


class SimpleQueue(_SimpleQueue):
    """See `multiprocessing.SimpleQueue`; tensors and arrays in its items go by reference."""

    def __init__(self, *, ctx: Any = None) -> None:
        reductions.learn_libraries()
        super().__init__(ctx=ctx or context_of(None))
        _take_over(self)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        _take_over(self)

    def put(self, obj: Any) -> None:
        """Puts any picklable object."""
        pickled = reductions.dumps(obj)
        with self._wlock:
            self._writer.send_bytes(pickled)


def _take_over(queue: Any) -> None:
    """The ends of a queue's pipe become ours."""
    queue._reader.__class__ = _Reader
    queue._writer.__class__ = connection.Connection
