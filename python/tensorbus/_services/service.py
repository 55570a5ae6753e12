"""Services, which answer requests."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tensorbus._aio.callbacks import RAISED, Callback, Mode, is_cancelled, outcome_of
from tensorbus._aio.failures import Failures
from tensorbus._base.arguments import whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, Error, Refused
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._codec.typed import plan_or_none
from tensorbus._core import Sample
from tensorbus._pools.batches import Limits, checked, row, stacked
from tensorbus._queues.queue import Queue
from tensorbus._services import calls
from tensorbus._services.answers import Answers
from tensorbus._services.requests import Requests
from tensorbus._tensors.library import Library, library_or_none
from tensorbus.messages import Message

# Maximum of clients' types whose comparison is cached.
_MAX_COMPARED = 256
# Seconds before the next attempt after an error of taking a request.
_PAUSE = 0.01


@public
class Service(Closing):
    """Answers requests while its node runs. Made by `Node.create_service`.

    Any number of processes may offer a service with the same name: each client distributes its
    calls over them, see `Client`.
    """

    _in_a_child = "make the node in the child"

    def __init__(
        self,
        name: str,
        request_type: type[Message] | None,
        reply_type: type[Message] | None,
        callback: Callback,
        *,
        mode: Mode,
        concurrency: int,
        limits: Limits,
        library: Library | None,
        domain: str | None,
        failures: Failures,
    ) -> None:
        self.name = name
        self.mode = mode
        self.label: str = f"service {name!r}"
        self.parallel: int = whole_number("concurrency", concurrency, low=1)
        self.calls: int = 0  # number of requests so far
        self._closed = False
        self._types = calls.Types(plan_or_none(request_type), plan_or_none(reply_type))
        self._callback = callback
        self._library = library_or_none(library)
        self._failures = failures
        self._queue = Queue(name=calls.queue_name(name), domain=domain)
        self._home = participant(domain)
        self._is_batched = limits.size is not None
        self._requests = Requests(
            self._queue, limits, lambda error: failures.report(error, self.label)
        )
        self._answers = Answers(domain, lambda error: failures.warn(error, self.label))
        # The reason why a client's types do not match, or None, by the definitions of these types.
        self._mismatches: dict[tuple[str, str], str | None] = {}

    def is_open_as(self, name: str) -> bool:
        """True if it offers the service of this name, and was not closed."""
        return self.name == name and not self._closed

    def close(self) -> None:
        """Closes the service; calls of waiting clients raise `Closed`. A second call does nothing.

        It first waits until answers have been sent, for up to a second if a client is stopped.
        """
        # Before the queue is closed: a client that detects the end without an answer gets `Closed`.
        self._closed = True
        self._answers.finish_sync()
        self._queue._discard()

    async def finish(self) -> None:
        await self._answers.finish()

    async def work(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                samples = await self._requests.take()
            except Closed:
                return
            except Error as error:
                self._failures.report(error, self.label)
                await asyncio.sleep(_PAUSE)
                continue
            if requests := self._read_all(samples):
                self._give_all(requests, await self._answer(requests))
            del samples, requests  # hold no request while waiting for the next

    def work_sync(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                samples = self._requests.take_sync()
            except Closed:
                return
            except Error as error:
                self._failures.report(error, self.label)
                stop.wait(_PAUSE)
                continue
            if requests := self._read_all(samples):
                self._give_all(requests, self._answer_sync(requests))
            del samples, requests

    def _read_all(self, samples: list[Sample]) -> list[calls.Request]:
        """The requests for the callback; answers those that it cannot get."""
        requests = []
        for sample in samples:
            try:
                request = self._read(sample)
                if request.refusal is not None:
                    self._answers.give(request.reply, request.refusal)
                elif not self._is_batched or not self._answers.has_gone(request.reply):
                    requests.append(request)
            except Error as error:
                self._failures.warn(error, self.label)
        return requests

    def _give_all(self, requests: list[calls.Request], items: list[calls.Item]) -> None:
        for request, item in zip(requests, items, strict=True):
            self._give(request, item)

    def _give(self, request: calls.Request, item: calls.Item) -> None:
        try:
            self._answers.give(request.reply, item)
        except Error as error:
            self._failures.warn(error, self.label)

    async def _answer(self, requests: list[calls.Request]) -> list[calls.Item]:
        try:
            reply = await outcome_of(self._callback(self._argument(requests)))
            return self._items(reply, len(requests))
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            return self._failed(error, len(requests))
        except Exception as error:
            return self._failed(error, len(requests))
        except (SystemExit, KeyboardInterrupt) as error:
            self._last_answers(requests, error)
            raise

    def _answer_sync(self, requests: list[calls.Request]) -> list[calls.Item]:
        try:
            reply = self._callback(self._argument(requests))
            return self._items(reply, len(requests))
        except RAISED as error:
            return self._failed(error, len(requests))
        except BaseException as error:
            self._last_answers(requests, error)
            raise

    def _argument(self, requests: list[calls.Request]) -> Any:
        if not self._is_batched:
            return requests[0].data
        return stacked([request.data for request in requests], self._home)

    def _items(self, reply: Any, count: int) -> list[calls.Item]:
        """The answers with the replies of the callback."""
        if not self._is_batched:
            return [calls.reply_item(self._types, reply)]
        reply = checked(reply, count, lambda error: error)
        return [self._item(reply, index) for index in range(count)]

    def _item(self, replies: Any, index: int) -> calls.Item:
        try:
            return calls.reply_item(self._types, row(replies, index))
        except RAISED as error:
            (item,) = self._failed(error, 1)
            return item

    def _last_answers(self, requests: list[calls.Request], error: BaseException) -> None:
        """Answers the clients before an exception, for example `SystemExit`, ends the node."""
        for request in requests:
            self._give(request, calls.error_item(error))

    def _failed(self, error: BaseException, count: int) -> list[calls.Item]:
        """Reports an exception once, and returns an answer with it for each request."""
        if not isinstance(error, Refused):
            self._failures.report(error, self.label)
        return [calls.error_item(error) for _ in range(count)]

    def _read(self, sample: Sample) -> calls.Request:
        self.calls += 1
        request = calls.read_request(sample, self._library)
        why = self._mismatch(request.types)
        if why is not None:
            return request._replace(refusal=calls.mismatch_item(why))
        plan = self._types.request
        if plan is None:
            return request
        try:
            return request._replace(data=plan.received(request.data, self._library))
        except Error as error:
            self._failures.warn(error, self.label)
            return request._replace(refusal=calls.error_item(error))

    def _mismatch(self, types: tuple[str, str]) -> str | None:
        if types not in self._mismatches:
            if len(self._mismatches) >= _MAX_COMPARED:
                self._mismatches.clear()
            self._mismatches[types] = calls.mismatch(self._types, types)
        return self._mismatches[types]

    def __repr__(self) -> str:
        return f"<tensorbus.Service {self.name!r} calls={self.calls}>"
