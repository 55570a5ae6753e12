"""The side of a service that asks."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic

from tensorbus._base.arguments import seconds, topic_name
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, Error, Timeout
from tensorbus._base.generics import MessageClass, Reply, Request
from tensorbus._base.public import public, renamed
from tensorbus._codec.typed import plan_or_none
from tensorbus._core import Sample
from tensorbus._services import calls
from tensorbus._services.server import Finder, Replies, Server
from tensorbus._tensors.library import Library, library_or_none


@public
class Client(Closing, Generic[Request, Reply]):
    """Asks a service: `await client.call(request)`, or `client.call_sync(request)` in a thread.

    Requests and replies are what a topic's messages may be; tensors travel by reference both ways.
    Any number of calls may be under way at once, from any thread or loop.

    Args:
        name: the service's.
        request_type: the class of the requests, which inherits from `Message`; `None` for any.
        reply_type: the class of the replies.
        timeout: seconds for a call, from looking for the service to its answer; `None` for as long
            as it takes.
        library: whose tensors are wanted, see `tensorbus.Subscriber`.
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

    @renamed(as_="library")
    def __init__(
        self,
        name: str,
        request_type: MessageClass[Request] | None = None,
        reply_type: MessageClass[Reply] | None = None,
        *,
        timeout: float | None = None,
        library: Library | None = None,
        domain: str | None = None,
    ) -> None:
        self.name: str = topic_name(name)
        self._types = calls.Types(plan_or_none(request_type), plan_or_none(reply_type))
        self._timeout = seconds("timeout", timeout)
        self._library = library_or_none(library)
        self._domain = domain
        self._closed = False
        self._finder = Finder(self.name, domain)
        # Each call has a queue for its answer, which the next one uses again.
        self._replies: deque[Replies] = deque()

    async def call(self, request: Request, timeout: float | None = None) -> Reply:
        """The service's reply.

        Args:
            request: of the request type, or whatever can travel.
            timeout: seconds; by default the client's own.

        Raises:
            ServiceError: the service's callback raised; its `__cause__` has the traceback there.
            Timeout: there was no such service, or no answer, in time.
            Closed: the service's process died, or closed it, after it had accepted the request; or
                the client is closed.
            TypeMismatch: the service's types are others; both are shown.
            MessageError, Unsupported: the request cannot be sent; see `Publisher.publish`.
        """
        deadline = self._deadline(timeout)
        with _Answer(self._replies, self._domain) as replies:
            server = await self._asked(replies, request, deadline)
            try:
                found = await server.get(replies, deadline).answer()
            except (Timeout, Closed) as error:
                raise self._told(error, server) from None
        return self._read(found)

    def call_sync(self, request: Request, timeout: float | None = None) -> Reply:
        """`call` that blocks its thread; not in an event loop that serves it."""
        deadline = self._deadline(timeout)
        with _Answer(self._replies, self._domain) as replies:
            server = self._asked_sync(replies, request, deadline)
            try:
                found = server.get(replies, deadline).answer_sync()
            except (Timeout, Closed) as error:
                raise self._told(error, server) from None
        return self._read(found)

    async def _asked(self, replies: Replies, request: Any, deadline: float) -> Server:
        """The server that has accepted the request. If one has gone since it was found, it has not:
        the next one is asked, with an item of its own, since a put empties the item.
        """
        item = self._item(replies, request)
        while (server := await self._finder.found(deadline)) is not None:
            with self._asking(server):
                await server.put(item, deadline).answer()
                return server
            item = self._item(replies, request)
        raise self._missing()

    def _asked_sync(self, replies: Replies, request: Any, deadline: float) -> Server:
        item = self._item(replies, request)
        while (server := self._finder.found_sync(deadline)) is not None:
            with self._asking(server):
                server.put(item, deadline).answer_sync()
                return server
            item = self._item(replies, request)
        raise self._missing()

    def _item(self, replies: Replies, request: Any) -> calls.Item:
        return calls.request_item(replies.queue.address, self._types, request)

    @contextmanager
    def _asking(self, server: Server) -> Iterator[None]:
        try:
            yield
        except Closed:
            server.found_gone()
        except Timeout as error:
            raise self._told(error, server) from None

    async def wait_for_service(self, timeout: float | None = None) -> bool:
        """Waits until there is such a service; False after `timeout` seconds."""
        return await self._finder.found(_deadline(seconds("timeout", timeout))) is not None

    def close(self) -> None:
        """No more calls. A second call does nothing."""
        self._closed = True
        self._finder.close()
        while self._replies:
            self._replies.pop().queue.close()

    def _deadline(self, timeout: float | None) -> float:
        return _deadline(self._timeout if timeout is None else seconds("timeout", timeout))

    def _missing(self) -> Timeout:
        return Timeout(f"there was no service {self.name!r} in time")

    def _told(self, error: Error, server: Server) -> Error:
        if isinstance(error, Closed):
            server.found_gone()
            return Closed(f"service {self.name!r} has gone, or was closed, before it answered")
        return Timeout(f"service {self.name!r} has not answered in time")

    def _read(self, found: object) -> Reply:
        if not isinstance(found, Sample):
            raise Error(f"a queue answered {found}")
        reply: Reply = calls.read_reply(self.name, found, self._types, self._library)
        return reply

    def __repr__(self) -> str:
        return f"<tensorbus.Client {self.name!r}{' closed' if self._closed else ''}>"


def _deadline(limit: float | None) -> float:
    return math.inf if limit is None else time.monotonic() + limit


class _Answer:
    """A queue for one answer; used again if that came, so that a late one reaches nobody."""

    def __init__(self, idle: deque[Replies], domain: str | None) -> None:
        self._idle = idle
        self._replies = idle.pop() if idle else Replies(domain)

    def __enter__(self) -> Replies:
        return self._replies

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._replies.taken += 1
            self._idle.append(self._replies)
        else:
            self._replies.queue.close()
