"""Services, which answer requests."""

from __future__ import annotations

import asyncio
import threading

from tensorbus._aio.callbacks import RAISED, Callback, Mode, is_cancelled, outcome_of
from tensorbus._aio.failures import Failures
from tensorbus._base.arguments import whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, Error
from tensorbus._base.public import public
from tensorbus._codec.typed import plan_or_none
from tensorbus._core import Sample
from tensorbus._queues.pending import result_of
from tensorbus._queues.queue import Queue
from tensorbus._services import calls
from tensorbus._services.answers import Answers
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
        library: Library | None,
        domain: str | None,
        failures: Failures,
    ) -> None:
        self.name = name
        self.mode = mode
        self.label: str = f"service {name!r}"
        self.parallel: int = whole_number("concurrency", concurrency, low=1)
        self.calls: int = 0  # number of requests so far
        self._types = calls.Types(plan_or_none(request_type), plan_or_none(reply_type))
        self._callback = callback
        self._library = library_or_none(library)
        self._failures = failures
        self._queue = Queue(name=calls.queue_name(name), domain=domain)
        self._answers = Answers(domain, lambda error: failures.warn(error, self.label))
        # The reason why a client's types do not match, or None, by the definitions of these types.
        self._mismatches: dict[tuple[str, str], str | None] = {}

    def close(self) -> None:
        """Closes the service; calls of waiting clients raise `Closed`. A second call does nothing.

        It first waits until answers have been sent, for up to a second if a client is stopped.
        """
        # Before the queue is closed: a client that detects the end without an answer gets `Closed`.
        self._answers.finish_sync()
        self._queue._discard()

    async def finish(self) -> None:
        await self._answers.finish()

    async def work(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                request = await result_of(self._queue._here.start_get())
            except Closed:
                return
            except Error as error:
                self._failures.report(error, self.label)
                await asyncio.sleep(_PAUSE)
                continue
            if isinstance(request, Sample):
                await self._serve(request)
            del request  # hold no request while waiting for the next

    def work_sync(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                request = self._queue._take_sample(None)
            except Closed:
                return
            except Error as error:
                self._failures.report(error, self.label)
                stop.wait(_PAUSE)
                continue
            self._serve_sync(request)
            del request

    async def _serve(self, sample: Sample) -> None:
        try:
            request = self._read(sample)
            self._give(request, request.refusal or await self._answer(request))
        except Error as error:
            self._failures.warn(error, self.label)

    def _serve_sync(self, sample: Sample) -> None:
        try:
            request = self._read(sample)
            self._give(request, request.refusal or self._answer_sync(request))
        except Error as error:
            self._failures.warn(error, self.label)

    def _give(self, request: calls.Request, item: calls.Item) -> None:
        try:
            self._answers.give(request.reply, item)
        except Error as error:
            self._failures.warn(error, self.label)

    async def _answer(self, request: calls.Request) -> calls.Item:
        try:
            reply = await outcome_of(self._callback(request.data))
            return calls.reply_item(self._types, reply)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            return self._failed(error)
        except Exception as error:
            return self._failed(error)
        except (SystemExit, KeyboardInterrupt) as error:
            self._last_answer(request, error)
            raise

    def _answer_sync(self, request: calls.Request) -> calls.Item:
        try:
            return calls.reply_item(self._types, self._callback(request.data))
        except RAISED as error:
            return self._failed(error)
        except BaseException as error:
            self._last_answer(request, error)
            raise

    def _last_answer(self, request: calls.Request, error: BaseException) -> None:
        """Answers the client before an exception, for example `SystemExit`, ends the node."""
        self._give(request, calls.error_item(error))

    def _failed(self, error: BaseException) -> calls.Item:
        self._failures.report(error, self.label)
        return calls.error_item(error)

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
