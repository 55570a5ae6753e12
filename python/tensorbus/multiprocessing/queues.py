"""The standard library's queues, with tensors and arrays by reference.

Items are pickled by `reductions.dumps`, in the order of the puts: for a `Queue` in its feeder
thread, for a `SimpleQueue` in the thread that calls `put`. For an item with tensors, the pipe
carries the handle of a message that contains them.
"""

from __future__ import annotations

import multiprocessing.queues as standard
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tensorbus.multiprocessing import _carriers, _keeper, connection, reductions
from tensorbus.multiprocessing._contexts import context_of

if TYPE_CHECKING:
    _Queue = standard.Queue[Any]
    _JoinableQueue = standard.JoinableQueue[Any]
    _SimpleQueue = standard.SimpleQueue[Any]
else:  # these classes cannot be subscripted in every version of Python
    _Queue, _JoinableQueue = standard.Queue, standard.JoinableQueue
    _SimpleQueue = standard.SimpleQueue

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]


class _OnStreams:
    """An item, with the CUDA streams that were current in the thread that put it."""

    def __init__(self, item: Any, streams: list[Any]) -> None:
        self.item = item
        self._streams = streams

    def dumped(self, carrier: int) -> reductions.Dumped:
        with ExitStack() as stack:
            for stream in self._streams:
                stack.enter_context(sys.modules["torch"].cuda.stream(stream))
            return reductions.Dumped(self.item, carrier)


class _Sender:
    """Pickles and sends items. Only the feeder thread uses it."""

    _dumped: reductions.Dumped

    def __init__(self, send_bytes: Any) -> None:
        self._send_bytes = send_bytes
        self._carrier = send_bytes.__self__.carrier  # `__self__` is the connection

    def dumps(self, item: Any) -> bytes:
        """Replaces `ForkingPickler.dumps`."""
        if type(item) is _OnStreams:
            self._dumped = item.dumped(self._carrier)
        else:
            self._dumped = reductions.Dumped(item, self._carrier)
        return self._dumped.pickled

    def send_bytes(self, pickled: bytes) -> None:
        try:
            self._send_bytes(pickled)
        except OSError:
            self._dumped.withdraw()
            raise


# Types without tensors: looking up the streams would take a third of the time of `put`.
_LEAVES = frozenset({type(None), bool, int, float, str, bytes})


def _on_streams(item: Any) -> Any:
    """The item; with the current CUDA streams, if one of them is not the default stream."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return item
    devices = range(torch.cuda.device_count())
    streams = [torch.cuda.current_stream(device) for device in devices]
    default = all(streams[device] == torch.cuda.default_stream(device) for device in devices)
    return item if default else _OnStreams(item, streams)


def _with_names(method: str, **names: Any) -> Any:
    """A method of the standard library's queue, with other values for these globals."""
    function = getattr(_Queue, method)
    known = {**function.__globals__, **names}
    return FunctionType(function.__code__, known, function.__name__, function.__defaults__)


class Queue(_Queue):
    """See `multiprocessing.Queue`. Tensors and arrays in its items go by reference."""

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:
        reductions.learn_libraries()
        super().__init__(maxsize, ctx=ctx or context_of(None))

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Puts any object that can be pickled; the feeder thread pickles it.

        Raises:
            queue.Full: the queue had no room, at once or within `timeout` seconds.
        """
        _Queue.put(self, obj if type(obj) in _LEAVES else _on_streams(obj), block, timeout)

    def _reset(self, after_fork: bool = False) -> None:
        _take_over(self)
        super()._reset(after_fork)  # type: ignore[misc]

    def cancel_join_thread(self) -> None:
        """See `multiprocessing.Queue.cancel_join_thread`. The exit does not wait for the keeper."""
        super().cancel_join_thread()
        _keeper.end_without(self._writer.carrier)  # type: ignore[attr-defined]

    def _start_thread(self) -> None:
        _start_thread(self)

    @staticmethod
    def _feed(*arguments: Any) -> None:
        """The standard library's `_feed`, with the pickler of this package."""
        buffer, not_empty, send_bytes, *others, on_error, semaphore = arguments
        sender = _Sender(send_bytes)
        feed = _with_names("_feed", _ForkingPickler=sender)

        def on_error_of_item(error: Exception, item: Any) -> None:
            on_error(error, item.item if type(item) is _OnStreams else item)

        feed(buffer, not_empty, sender.send_bytes, *others, on_error_of_item, semaphore)


# The standard library's `_start_thread`; its thread runs `Queue._feed` of this module.
_start_thread: Callable[[Queue], None] = _with_names("_start_thread", Queue=Queue)


class JoinableQueue(Queue, _JoinableQueue):
    """See `multiprocessing.JoinableQueue`. Tensors and arrays in its items go by reference."""

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Puts any object that can be pickled; the feeder thread pickles it.

        Raises:
            queue.Full: the queue had no room, at once or within `timeout` seconds.
        """
        item = obj if type(obj) in _LEAVES else _on_streams(obj)
        _JoinableQueue.put(self, item, block, timeout)


class SimpleQueue(_SimpleQueue):
    """See `multiprocessing.SimpleQueue`. Tensors and arrays in its items go by reference."""

    _reader: Any
    _writer: Any
    _wlock: Any

    def __init__(self, *, ctx: Any = None) -> None:
        reductions.learn_libraries()
        super().__init__(ctx=ctx or context_of(None))
        _take_over(self)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        _take_over(self)

    def put(self, obj: Any) -> None:
        """Puts any object that can be pickled."""
        dumped = reductions.Dumped(obj, self._writer.carrier)
        try:
            with self._wlock:
                self._writer.send_bytes(dumped.pickled)
        except OSError:
            dumped.withdraw()
            raise


def _take_over(queue: Any) -> None:
    """Changes the class of both ends of a queue's pipe to the `Connection` of this package."""
    for end in (queue._reader, queue._writer):
        end.__class__ = connection.Connection
    if not queue._writer.carrier:
        queue._writer.carrier = _carriers.inode_of(queue._reader.fileno())
