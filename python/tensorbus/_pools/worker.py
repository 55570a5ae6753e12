"""The main function of a pool's worker process."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from tensorbus._base.arguments import Access
from tensorbus._base.device import make_current
from tensorbus._base.errors import Closed, Timeout, Unsupported
from tensorbus._pickling import pickler
from tensorbus._pools.answers import Done, Failed, Ready
from tensorbus._pools.batches import Batch, checked, row
from tensorbus._pools.importable import why_not_imported
from tensorbus._pools.shortage import is_shortage
from tensorbus._pools.worker_signals import leave_signals_to_the_pool
from tensorbus._queues.queue import Queue
from tensorbus._tensors.library import Library


@dataclass
class Job:
    """The function that a worker calls for each item or batch, its initializer and its device."""

    function: Callable[..., Any]
    initializer: Callable[..., Any] | None
    device: Any = None

    def begin(self) -> Callable[[Any], Any]:
        """Calls the initializer, and returns the function to call with each message."""
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
            if isinstance(item, Batch):
                results = self.function(*given, item.value, **options)
                return Results(checked(results, item.count, Failed), item.count)
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
class Results:
    """The results of a batch, see `tensorbus._pools.batches.checked`."""

    value: Any
    count: int

    def each_apart(self) -> Results:
        """The results as a list; those that cannot be pickled are replaced by a `Failed`."""
        return Results([self._apart(index) for index in range(self.count)], self.count)

    def _apart(self, index: int) -> Any:
        try:
            result = row(self.value, index)
            pickler.dump(result)
        except BaseException as error:
            return Failed(error)
        return result


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


def work(
    inbox: str,
    outbox: str,
    domain: str,
    job: Job | None,
    access: Access | None = None,
    library: Library | None = None,
    pin: bool = False,
) -> None:
    """Runs a worker until its inbox is closed, or the pool's process has ended.

    The queues are passed by address, so that this function handles a pool that has ended before
    the worker starts.
    """
    leave_signals_to_the_pool()
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
        _work(items, answers, first, library, pin)


def _work(inbox: Queue, outbox: Queue, first: Any, library: Library | None, pin: bool) -> None:
    try:
        call = (first if isinstance(first, Job) else _load(first)).begin()
        if pin:  # when the worker's device is current
            inbox._pin()
    except BaseException as error:  # sys.exit, too
        outbox.put(Failed(error))
        return
    outbox.put(Ready())
    for number in count(1):
        _answer(outbox, call, inbox._take_sample(None), number, library)


def _answer(
    outbox: Queue,
    call: Callable[[Any], Any],
    sample: Any,
    number: int,
    library: Library | None,
) -> None:
    """Calls the function. Any exception is the task's result, as in `ProcessPoolExecutor`."""
    try:
        item = _load(sample, library)
    except BaseException as error:
        outbox.put(Failed(error, number, unread=True))
        return
    try:
        value = call(item)
    except BaseException as error:
        outbox.put(Failed(error, number))
        return
    try:
        outbox.put(Done(value, number))
    except BaseException as error:  # the value cannot be pickled, or there is too little memory
        _answer_otherwise(outbox, value, number, error)


def _answer_otherwise(outbox: Queue, value: Any, number: int, error: BaseException) -> None:
    """Answers with the results that can be sent, else with the error of the first attempt."""
    if isinstance(value, Results):
        with suppress(BaseException):
            outbox.put(Done(value.each_apart(), number))
            return
    outbox.put(Failed(error, number))  # raises `Closed` if the pool is gone


def _load(sample: Any, library: Library | None = None) -> Any:
    try:
        return pickler.load(sample, library)
    except AttributeError as error:
        if why := why_not_imported(error):
            raise Unsupported(why) from error
        raise
