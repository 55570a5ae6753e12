"""The side of a service that asks."""

from __future__ import annotations

import math
import time
import warnings
from collections import deque
from collections.abc import Coroutine
from typing import Any, Generic

from tensorbus._base.arguments import Access, access_named, seconds, topic_name
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, Error, InvalidArgument, Timeout
from tensorbus._base.generics import MessageClass, Reply, Request
from tensorbus._base.public import public
from tensorbus._codec.typed import plan_or_none
from tensorbus._core import Sample
from tensorbus._services import calls
from tensorbus._services.server import Finder, Replies, Server
from tensorbus._tensors.library import Library, library_or_none


@public
class Client(Closing, Generic[Request, Reply]):
    """Asks a service: `await client.call_async(request)`, or `client.call_sync(request)` to block.

    Requests and replies are what a topic's messages may be; tensors travel by reference both ways.
    Any number of calls may be under way at once, from any thread or loop. If several processes
    offer the service, a call goes to the one with the fewest unanswered calls of this client; among
    equals, to the one that has taken this client's calls the least time. Processes that come later
    get their share.

    Args:
        name: the service's.
        request_type: the class of the requests, which inherits from `Message`; `None` for any.
        reply_type: the class of the replies.
        timeout: seconds for a call, from looking for the service to its answer; `None` for as long
            as it takes.
        access: what may be done with the tensors of replies, see `tensorbus.Subscriber`; `None` is
            "copy-on-write", and "shared" is refused.
        library: whose tensors are wanted, see `tensorbus.Subscriber`.
        domain: see `tensorbus.participant`.

    >>> import asyncio
    >>> from tensorbus import Node
    >>> async def main():
    ...     async with Node("adder") as node:
    ...         node.create_service("doc/add", callback=sum)
    ...         running = asyncio.create_task(node.run())
    ...         print(await node.create_client("doc/add").call_async([1, 2, 3], timeout=10))
    >>> asyncio.run(main())
    6
    """

    def __init__(
        self,
        name: str,
        request_type: MessageClass[Request] | None = None,
        reply_type: MessageClass[Reply] | None = None,
        *,
        timeout: float | None = None,
        access: Access | None = None,
        library: Library | None = None,
        domain: str | None = None,
    ) -> None:
        self.name: str = topic_name(name)
        self._types = calls.Types(plan_or_none(request_type), plan_or_none(reply_type))
        self._timeout = seconds("timeout", timeout)
        if access == "shared":
            raise InvalidArgument("access='shared': a service lets no client write to its memory")
        if access is not None:
            access_named(access)
        self._access = access
        self._library = library_or_none(library)
        self._domain = domain
        self._closed = False
        self._finder = Finder(self.name, domain)
        # Each call has a queue for its answer, which the next one uses again.
        self._replies: deque[Replies] = deque()

    async def call_async(self, request: Request, timeout: float | None = None) -> Reply:
        """The service's reply.

        Args:
            request: of the request type, or whatever can travel.
            timeout: seconds; by default the client's own.

        Raises:
            ServiceError: the service's callback raised; its `__cause__` has the traceback there.
            Timeout: there was no such service, or no answer, in time.
            OutOfMemory: the service's process, or this one, had no room for a connection in time.
            Closed: the service's process died, or closed it, after it had accepted the request; or
                the client was closed before.
            TypeMismatch: the service's types are others; both are shown.
            MessageError, Unsupported: the request cannot be sent; see `Publisher.publish`.
        """
        deadline = self._deadline(timeout)
        with self._call() as calling:
            server = await self._asked(calling, request, deadline)
            try:
                found = await server.get(calling.replies, deadline).answer()
            except (Timeout, Closed) as error:
                raise self._told(error, server) from None
        return self._read(found)

    def call_sync(self, request: Request, timeout: float | None = None) -> Reply:
        """`call_async` that blocks its thread; not in an event loop that serves it."""
        deadline = self._deadline(timeout)
        with self._call() as calling:
            server = self._asked_sync(calling, request, deadline)
            try:
                found = server.get_sync(calling.replies, deadline)
            except (Timeout, Closed) as error:
                raise self._told(error, server) from None
        return self._read(found)

    def _own(self) -> Finder:
        if not self._finder.own():
            self._replies = deque()  # the others are the parent's, which goes on using them
        return self._finder

    def _call(self) -> _Call:
        self._own()
        try:
            replies = self._replies.pop()
        except IndexError:
            replies = Replies(self._domain, self._access)
        return _Call(self._replies, replies)

    async def _asked(self, calling: _Call, request: Any, deadline: float) -> Server:
        """The server that has accepted the request. If one has gone since it was found, it has not:
        the next one is asked, with an item of its own, since a put empties the item.
        """
        item = self._item(calling.replies, request)
        while (server := await self._finder.chosen(deadline)) is not None:
            calling.server = server
            try:
                await server.put(item, deadline).answer()
                return server
            except Closed:
                server.found_gone()
                item = self._item(calling.replies, request)
            except Timeout as error:
                raise self._told(error, server) from None
        raise self._finder.missing()

    def _asked_sync(self, calling: _Call, request: Any, deadline: float) -> Server:
        item = self._item(calling.replies, request)
        while (server := self._finder.chosen_sync(deadline)) is not None:
            calling.server = server
            try:
                server.put_sync(item, deadline)
                return server
            except Closed:
                server.found_gone()
                item = self._item(calling.replies, request)
            except Timeout as error:
                raise self._told(error, server) from None
        raise self._finder.missing()

    def _item(self, replies: Replies, request: Any) -> calls.Item:
        return calls.request_item(replies.address, self._types, request)

    async def wait_for_service_async(self, timeout: float | None = None) -> bool:
        """Waits until there is such a service; False after `timeout` seconds."""
        return await self._own().found(_deadline(seconds("timeout", timeout)))

    def call(self, request: Request, timeout: float | None = None) -> Coroutine[Any, Any, Reply]:
        """The old name of `call_async`, until Tensorbus 1.0."""
        _warn("call() is deprecated: await call_async(), or use call_sync(), which blocks")
        return self.call_async(request, timeout)

    def wait_for_service(self, timeout: float | None = None) -> Coroutine[Any, Any, bool]:
        """The old name of `wait_for_service_async`, until Tensorbus 1.0."""
        _warn("wait_for_service() is deprecated: await wait_for_service_async()")
        return self.wait_for_service_async(timeout)

    def close(self) -> None:
        """No more calls. A second call does nothing.

        Calls under way that a service has accepted go on; those that look for one get `Closed`.
        """
        self._closed = True
        self._own().close()
        while self._replies:
            self._replies.pop().queue._discard()

    def _deadline(self, timeout: float | None) -> float:
        return _deadline(self._timeout if timeout is None else seconds("timeout", timeout))

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


def _warn(what: str) -> None:
    warnings.warn(f"Client.{what}", DeprecationWarning, stacklevel=3)


def _deadline(limit: float | None) -> float:
    return math.inf if limit is None else time.monotonic() + limit


class _Call:
    """A call under way: its server, and a queue for the answer.

    The queue is used again if the answer came, so that a late one reaches nobody.
    """

    def __init__(self, idle: deque[Replies], replies: Replies) -> None:
        self._idle = idle
        self._began = time.monotonic()
        self.replies = replies
        self.server: Server | None = None

    def __enter__(self) -> _Call:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.server is not None:
            self.server.end(time.monotonic() - self._began)
        if kind is None:
            self.replies.taken += 1
            self._idle.append(self.replies)
        else:
            self.replies.queue._discard()
