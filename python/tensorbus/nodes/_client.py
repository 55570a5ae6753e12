"""The side of a service that asks."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from typing import Any

from tensorbus._arguments import library_or_none, plan_or_none, seconds, topic_name
from tensorbus._closing import Closing
from tensorbus._core import Sample
from tensorbus._errors import Closed, Error, Timeout
from tensorbus._queue import Queue
from tensorbus._tensors import Library
from tensorbus.messages import Message
from tensorbus.nodes import _calls
from tensorbus.nodes._pending import Asked, Lifeline

# Seconds between two looks for a service that is not there, in an event loop.
_LOOK_AGAIN = 0.005


class Client(Closing):
    """Asks a service: `await client.call(request)`, or `client.call_sync(request)` in a thread.

    Requests and replies are what a topic's messages may be; tensors travel by reference both ways.
    Any number of calls may be under way at once, from any thread or loop.

    Args:
        name: the service's.
        request_type: the class of the requests, which inherits from `Message`; `None` for any.
        reply_type: the class of the replies.
        timeout: seconds for a call, from looking for the service to its answer; `None` for as long
            as it takes.
        as_: whose tensors are wanted, see `tensorbus.Subscriber`.
        domain: see `tensorbus.participant`.

    >>> import asyncio
    >>> from tensorbus import Node
    >>> async def main():
    ...     async with Node("adder") as node:
    ...         node.create_service("doc/add", callback=sum)
    ...         running = asyncio.create_task(node.run())
    ...         print(await node.create_client("doc/add").call([1, 2, 3], timeout=10))
    >>> asyncio.run(main())
    6
    """

    def __init__(
        self,
        name: str,
        request_type: type[Message] | None = None,
        reply_type: type[Message] | None = None,
        *,
        timeout: float | None = None,
        as_: Library | None = None,
        domain: str | None = None,
    ) -> None:
        self.name = topic_name(name)
        self._types = _calls.Types(plan_or_none(request_type), plan_or_none(reply_type))
        self._timeout = seconds("timeout", timeout)
        self._as = library_or_none(as_)
        self._domain = domain
        self._closed = False
        self._lock = threading.Lock()
        self._server: _Server | None = None
        # Each call has a queue for its answer, which the next one uses again.
        self._replies: deque[Queue] = deque()

    async def call(self, request: Any, timeout: float | None = None) -> Any:
        """The service's reply.

        Args:
            request: of the request type, or whatever can travel.
            timeout: seconds; by default the client's own.

        Raises:
            ServiceError: the service's callback raised; its `__cause__` has the traceback there.
            Timeout: there was no such service, or no answer, in time.
            Closed: the service's process died, or closed it, while we waited; or the client is
                closed.
            TypeMismatch: the service's types are others; both are shown.
            MessageError, Unsupported: the request cannot be sent; see `Publisher.publish`.
        """
        deadline = self._deadline(timeout)
        while (server := self._found(0)) is None:
            self._check_time(deadline)
            await asyncio.sleep(_LOOK_AGAIN)
        with _Answer(self._replies, self._domain) as replies:
            item = _calls.request_item(replies.address, self._types, request)
            try:
                await server.put(item, deadline).answer()
                found = await server.get(replies, deadline).answer()
            except (Timeout, Closed) as error:
                raise self._told(error, server) from None
        return self._read(found)

    def call_sync(self, request: Any, timeout: float | None = None) -> Any:
        """`call` that blocks its thread; not in an event loop that serves it."""
        deadline = self._deadline(timeout)
        server = self._found(None if math.isinf(deadline) else deadline - time.monotonic())
        if server is None:
            raise self._missing()
        with _Answer(self._replies, self._domain) as replies:
            item = _calls.request_item(replies.address, self._types, request)
            try:
                server.put(item, deadline).answer_sync()
                found = server.get(replies, deadline).answer_sync()
            except (Timeout, Closed) as error:
                raise self._told(error, server) from None
        return self._read(found)

    async def wait_for_service(self, timeout: float | None = None) -> bool:
        """Waits until there is such a service; False after `timeout` seconds."""
        limit = seconds("timeout", timeout)
        deadline = math.inf if limit is None else time.monotonic() + limit
        while self._found(0) is None:
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_LOOK_AGAIN)
        return True

    def close(self) -> None:
        """No more calls. A second call does nothing."""
        self._closed = True
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None
        while self._replies:
            self._replies.pop().close()

    def _deadline(self, timeout: float | None) -> float:
        limit = self._timeout if timeout is None else seconds("timeout", timeout)
        return math.inf if limit is None else time.monotonic() + limit

    def _found(self, timeout: float | None) -> _Server | None:
        """A service that lives; None if there is none in time."""
        if self._closed:
            raise Closed(f"the client of service {self.name!r} is closed")
        with self._lock:
            if self._server is not None and not self._server.gone:
                return self._server
        try:
            queue = Queue.open(
                _calls.queue_name(self.name),
                timeout=None if timeout is None else max(timeout, 0),
                domain=self._domain,
            )
        except (Timeout, Closed):  # Closed: it has just left
            return None
        with self._lock:
            self._server = _Server(queue)
            return self._server

    def _check_time(self, deadline: float) -> None:
        if time.monotonic() >= deadline:
            raise self._missing()

    def _missing(self) -> Timeout:
        return Timeout(f"there was no service {self.name!r} in time")

    def _told(self, error: Error, server: _Server) -> Error:
        if isinstance(error, Closed):
            server.found_gone()
            return Closed(f"service {self.name!r} has gone, or was closed, before it answered")
        return Timeout(f"service {self.name!r} has not answered in time")

    def _read(self, found: object) -> Any:
        if not isinstance(found, Sample):
            raise Error(f"a queue answered {found}")
        return _calls.read_reply(self.name, found, self._types, self._as)

    def __repr__(self) -> str:
        return f"<tensorbus.Client {self.name!r}{' closed' if self._closed else ''}>"


class _Server:
    """The requests of one process that offers the service."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._life: Lifeline | None = None
        self._gone = False

    @property
    def gone(self) -> bool:
        return self._gone or (self._life is not None and self._life.cut)

    def found_gone(self) -> None:
        self._gone = True

    def put(self, item: _calls.Item, deadline: float) -> Asked:
        return Asked(self._queue._here.start_put(*item), deadline)

    def get(self, replies: Queue, deadline: float) -> Asked:
        """After a put was answered: before that, nothing may be in the queue, and a join ends."""
        if self._life is None:
            self._life = Lifeline(self._queue._here.start_join())
        return Asked(replies._here.start_get(), deadline, self._life)

    def close(self) -> None:
        if self._life is not None:
            self._life.close()


class _Answer:
    """A queue for one answer; used again if that came, so that a late one reaches nobody."""

    def __init__(self, idle: deque[Queue], domain: str | None) -> None:
        self._idle = idle
        self._queue = idle.pop() if idle else Queue(domain=domain)

    def __enter__(self) -> Queue:
        return self._queue

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._idle.append(self._queue)
        else:
            self._queue.close()
