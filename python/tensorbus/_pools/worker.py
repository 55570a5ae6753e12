"""The main function of a pool's worker process, and the messages that it sends."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from tensorbus._base.arguments import Access
from tensorbus._base.device import make_current
from tensorbus._base.errors import Closed, Error, Timeout
from tensorbus._pickling import pickler
from tensorbus._pools.shortage import is_shortage
from tensorbus._queues.queue import Queue


@dataclass
class Job:
    """The function that a worker calls for each item, its initializer and its device."""

    function: Callable[..., Any]
    initializer: Callable[..., Any] | None
    device: Any = None

    def begin(self) -> Callable[[Any], Any]:
        """Calls the initializer, and returns the function to call with each item."""
        is_current = make_current(self.device)
        given = (
            [] if self.initializer is None else [self.initializer(**self._for(self.initializer))]
        )
        options = self._for(self.function)

        def call(item: Any) -> Any:
            nonlocal is_current
            # Called again: the initializer or the item may have imported PyTorch.
            is_current = is_current or make_current(self.device)
            if isinstance(item, Chunk):
                return [self.function(*given, each, **options) for each in item.items]
            return self.function(*given, item, **options)

        return call

    def _for(self, function: Callable[..., Any]) -> dict[str, Any]:
        return {"device": self.device} if self.device is not None and takes_device(function) else {}


def takes_device(function: Callable[..., Any] | None) -> bool:
    """Whether the function has a parameter `device`."""
    if function is None:
        return False
    try:
        return "device" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False


@dataclass
class Chunk:
    """Items that one worker processes in turn; the result is the list of their results."""

    items: list[Any]


@dataclass
class Call:
    """The item of a pool without a function: a function and its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


def call_it(*given: Any, device: Any = None) -> Any:
    """The worker's function in a pool without a function. It ignores the initializer's result."""
    call: Call = given[-1]
    keywords = call.keywords
    if device is not None and takes_device(call.function):
        keywords = {"device": device, **keywords}
    return call.function(*call.arguments, **keywords)


def call_all(chunk: Chunk, device: Any = None) -> list[Any]:
    """The results of the calls in a chunk, in a pool without a function."""
    return [call_it(call, device=device) for call in chunk.items]


@dataclass
class Ready:
    """The first message of a worker."""


@dataclass
class Done:
    value: Any
    number: int  # of the item; the worker's first item is 1


class RemoteTraceback(Exception):
    """The `__cause__` of a worker's exception: the text of its traceback."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class Failed:
    """An exception as a message; the other process may be unable to unpickle the exception."""

    def __init__(self, error: BaseException, number: int | None = None) -> None:
        self.number = number  # of the item; None for the worker's current item
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.what = "".join(traceback.format_exception_only(type(error), error)).strip()
        self.pickled = b""
        with suppress(BaseException):
            self.pickled = pickle.dumps(error)

    def error(self) -> BaseException:
        """The exception, or an `Error` with its text if it cannot be unpickled."""
        error: object = None
        with suppress(BaseException):
            error = pickle.loads(self.pickled)
        if not isinstance(error, BaseException):
            error = Error(f"a worker raised an exception that cannot be pickled: {self.what}")
        error.__cause__ = RemoteTraceback(self.text)
        return error


def work(
    inbox: str, outbox: str, domain: str, job: Job | None, access: Access | None = None
) -> None:
    """Runs a worker until its inbox is closed, or the pool's process has ended.

    The queues are passed by address, so that this function handles a pool that has ended before
    the worker starts.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool's process handles Ctrl-C
    try:
        items = Queue.open(inbox, access=access, domain=domain)
        answers = Queue.open(outbox, domain=domain)
        first = items._take_sample(None) if job is None else job
    except (Closed, Timeout):  # the pool has ended, or had no descriptor for this connection
        sys.exit(os.EX_TEMPFAIL)
    except (MemoryError, OSError) as error:
        if is_shortage(error):
            sys.exit(os.EX_TEMPFAIL)
        raise
    with suppress(Closed):
        _work(items, answers, first)


def _work(inbox: Queue, outbox: Queue, first: Any) -> None:
    try:
        call = (first if isinstance(first, Job) else pickler.load(first)).begin()
    except BaseException as error:  # sys.exit, too
        outbox.put(Failed(error))
        return
    outbox.put(Ready())
    for number in count(1):
        _answer(outbox, call, inbox._take_sample(None), number)


def _answer(outbox: Queue, call: Callable[[Any], Any], sample: Any, number: int) -> None:
    """Calls the function. Any exception is the task's result, as in `ProcessPoolExecutor`."""
    answer: Done | Failed
    try:
        answer = Done(call(pickler.load(sample)), number)
    except BaseException as error:
        answer = Failed(error, number)
    try:
        outbox.put(answer)
    except BaseException as error:  # the value cannot be pickled, or there is too little memory
        outbox.put(Failed(error, number))  # raises `Closed` if the pool is gone
