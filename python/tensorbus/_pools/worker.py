"""What runs in a worker of a pool, and how its exceptions travel."""

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
    """What a worker does with each item."""

    function: Callable[..., Any]
    initializer: Callable[..., Any] | None
    device: Any = None

    def begin(self) -> Callable[[Any], Any]:
        """Calls the initializer; what is returned is called with each item."""
        is_current = make_current(self.device)
        given = (
            [] if self.initializer is None else [self.initializer(**self._for(self.initializer))]
        )
        options = self._for(self.function)

        def call(item: Any) -> Any:
            nonlocal is_current
            # The initializer, or the item, may have brought PyTorch.
            is_current = is_current or make_current(self.device)
            if isinstance(item, Chunk):
                return [self.function(*given, each, **options) for each in item.items]
            return self.function(*given, item, **options)

        return call

    def _for(self, function: Callable[..., Any]) -> dict[str, Any]:
        return {"device": self.device} if self.device is not None and takes_device(function) else {}


def takes_device(function: Callable[..., Any] | None) -> bool:
    """Has it a parameter of this name?"""
    if function is None:
        return False
    try:
        return "device" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        return False


@dataclass
class Chunk:
    """Items that one worker has one after the other; its result is theirs, in a list."""

    items: list[Any]


@dataclass
class Call:
    """The item of a pool without a function: what is called, and with what."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


def call_it(*given: Any, device: Any = None) -> Any:
    """The function of a pool without one. What the initializer returned comes first, unused."""
    call: Call = given[-1]
    keywords = call.keywords
    if device is not None and takes_device(call.function):
        keywords = {"device": device, **keywords}
    return call.function(*call.arguments, **keywords)


def call_all(chunk: Chunk, device: Any = None) -> list[Any]:
    """Of a pool without a function: the results of several calls."""
    return [call_it(call, device=device) for call in chunk.items]


@dataclass
class Ready:
    """The first word of a worker."""


@dataclass
class Done:
    value: Any
    number: int  # of the item: the worker's first is 1


class RemoteTraceback(Exception):
    """The `__cause__` of an exception of a worker: where it was raised there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class Failed:
    """An exception, which the other process may not be able to read."""

    def __init__(self, error: BaseException, number: int | None = None) -> None:
        self.number = number  # None: of whichever it is at
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.what = "".join(traceback.format_exception_only(type(error), error)).strip()
        self.pickled = b""
        with suppress(BaseException):
            self.pickled = pickle.dumps(error)

    def error(self) -> BaseException:
        """The exception, or one that says what it was."""
        error: object = None
        with suppress(BaseException):
            error = pickle.loads(self.pickled)
        if not isinstance(error, BaseException):
            error = Error(f"a worker raised what cannot be pickled: {self.what}")
        error.__cause__ = RemoteTraceback(self.text)
        return error


def work(
    inbox: str, outbox: str, domain: str, job: Job | None, access: Access | None = None
) -> None:
    """The life of a worker: until its inbox is closed, or the process that has it is gone.

    That may be so before it has begun: the queues come as their addresses.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool's process decides what Ctrl-C means
    try:
        items = Queue.open(inbox, domain=domain)
        items._receive_with(access)
        answers = Queue.open(outbox, domain=domain)
        first = items._take_sample(None) if job is None else job
    except (Closed, Timeout):  # the pool is over, or had no descriptor for this process
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


def _answer(outbox: Queue, call: Callable[[Any], Any], found: Any, number: int) -> None:
    """Each exception is the task's, as with `concurrent.futures.ProcessPoolExecutor`."""
    answer: Done | Failed
    try:
        answer = Done(call(pickler.load(found)), number)
    except BaseException as error:
        answer = Failed(error, number)
    try:
        outbox.put(answer)
    except BaseException as error:  # the value cannot be pickled, or there is no memory for it
        outbox.put(Failed(error, number))  # raises `Closed` if the pool is gone
