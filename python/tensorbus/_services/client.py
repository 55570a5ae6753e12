"""Clients of services."""

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
    """Calls a service: `await client.call_async(request)`, or `client.call_sync(request)` to block.

    Requests and replies may be any messages that a topic can have; their tensors are sent by
    reference. Any number of calls may run at once, from any thread or event loop. If several
    processes offer the service, a call goes to the process with the fewest unanswered calls of this
    client; if several have the same number, to the process that has spent the least time on this
    client's calls. The client also finds processes that start to offer the service later.

    Args:
        name: the name of the service.
        request_type: the class of the requests, which inherits from `Message`; `None` for any data.
        reply_type: the class of the replies, which inherits from `Message`; `None` for any data.
        timeout: seconds for a whole call, including the search for the service; `None` for no
            limit.
        access: the access to tensors of replies, see `tensorbus.Subscriber`; `None` is
            "copy-on-write", and "shared" is refused.
        library: the library of received tensors, see `tensorbus.Subscriber`.
        reopen: if the service's process ends before it has answered, or closes the service, the
            request is sent again to the next process that offers the service, within the call's
            `timeout`. So the service may run a request twice. Otherwise the call raises `Closed`.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: the name, `access` or `library` is invalid.
        MessageError: a type is not a dataclass.
        Unsupported: a type has a field that cannot be sent.

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
        reopen: bool = False,
        domain: str | None = None,
    ) -> None:
        self.name: str = topic_name(name)
        self._types = calls.Types(plan_or_none(request_type), plan_or_none(reply_type))
        self._timeout = seconds("timeout", timeout)
        if access == "shared":
            raise InvalidArgument("access='shared': a client cannot write to a service's memory")
        if access is not None:
            access_named(access)
        self._access = access
        self._library = library_or_none(library)
        self._reopen = reopen
        self._domain = domain
        self._closed = False
        self._finder = Finder(self.name, domain)
        # Idle queues for answers: each call takes a queue, and puts it back if it got its answer.
        self._replies: deque[Replies] = deque()

    async def call_async(self, request: Request, timeout: float | None = None) -> Reply:
        """Returns the service's reply.

        Args:
            request: an instance of the request type, or any data that can be sent.
            timeout: seconds; by default the client's own.

        Raises:
            ServiceError: the service's callback raised an exception; `__cause__` has its traceback,
                unless the callback refused the request with `Refused`.
            Timeout: the service was not found, or did not reply, in time.
            OutOfMemory: the service's process, or this process, had no room for a connection in
                time.
            Closed: the service's process accepted the request, and then died or closed the service,
                and the client has no `reopen`; or the client is closed.
            TypeMismatch: the service has other types; the message shows both.
            MessageError, Unsupported: the request cannot be sent; see `Publisher.publish`.
        """
        deadline = self._deadline(timeout)
        while True:
            try:
                answer = await self._ask(request, deadline)
                break
            except Closed:
                if not self._sends_again():
                    raise
        return self._read(answer)

    def call_sync(self, request: Request, timeout: float | None = None) -> Reply:
        """Calls like `call_async`, but blocks the thread until the reply arrives.

        Do not call it in the event loop of the service: the service could not reply.
        """
        deadline = self._deadline(timeout)
        while True:
            try:
                answer = self._ask_sync(request, deadline)
                break
            except Closed:
                if not self._sends_again():
                    raise
        return self._read(answer)

    async def _ask(self, request: Request, deadline: float) -> object:
        """Sends the request to one server, and returns the answer."""
        with self._call() as calling:
            server = await self._send(calling, request, deadline)
            try:
                return await server.get(calling.replies, deadline).answer()
            except (Timeout, Closed) as error:
                raise self._error_for(error, server) from None

    def _ask_sync(self, request: Request, deadline: float) -> object:
        with self._call() as calling:
            server = self._send_sync(calling, request, deadline)
            try:
                return server.get_sync(calling.replies, deadline)
            except (Timeout, Closed) as error:
                raise self._error_for(error, server) from None

    def _sends_again(self) -> bool:
        """Whether a request whose server has ended is sent to another server."""
        return self._reopen and not self._closed

    def _own_finder(self) -> Finder:
        if self._finder.reset_after_fork():
            self._replies = deque()  # the parent process continues to use the queues in the old
        return self._finder

    def _call(self) -> _Call:
        self._own_finder()
        try:
            replies = self._replies.pop()
        except IndexError:
            replies = Replies(self._domain, self._access)
        return _Call(self._replies, replies)

    async def _send(self, calling: _Call, request: Any, deadline: float) -> Server:
        """Sends the request, and returns the server that has accepted it.

        If a server has ended since it was found, it has not accepted the request. The request then
        goes to the next server, as a new item, because a put empties its item.
        """
        item = self._item(calling.replies, request)
        while (server := await self._finder.choose(deadline)) is not None:
            calling.server = server
            try:
                await server.put(item, deadline).answer()
                return server
            except Closed:
                server.mark_gone()
                item = self._item(calling.replies, request)
            except Timeout as error:
                raise self._error_for(error, server) from None
        raise self._finder.missing_error()

    def _send_sync(self, calling: _Call, request: Any, deadline: float) -> Server:
        item = self._item(calling.replies, request)
        while (server := self._finder.choose_sync(deadline)) is not None:
            calling.server = server
            try:
                server.put_sync(item, deadline)
                return server
            except Closed:
                server.mark_gone()
                item = self._item(calling.replies, request)
            except Timeout as error:
                raise self._error_for(error, server) from None
        raise self._finder.missing_error()

    def _item(self, replies: Replies, request: Any) -> calls.Item:
        return calls.request_item(replies.address, self._types, request)

    async def wait_for_service_async(self, timeout: float | None = None) -> bool:
        """Waits until the service exists; False after `timeout` seconds.

        Raises:
            Closed: the client is closed.
        """
        deadline = _deadline(seconds("timeout", timeout))
        return await self._own_finder().wait_for_server(deadline)

    def call(self, request: Request, timeout: float | None = None) -> Coroutine[Any, Any, Reply]:
        """The old name of `call_async`, until Tensorbus 1.0."""
        _warn("call() is deprecated: await call_async(), or use call_sync(), which blocks")
        return self.call_async(request, timeout)

    def wait_for_service(self, timeout: float | None = None) -> Coroutine[Any, Any, bool]:
        """The old name of `wait_for_service_async`, until Tensorbus 1.0."""
        _warn("wait_for_service() is deprecated: await wait_for_service_async()")
        return self.wait_for_service_async(timeout)

    def close(self) -> None:
        """Closes the client. A second call does nothing.

        Calls that a service has accepted continue; pending searches for a service raise `Closed`.
        """
        self._closed = True
        self._own_finder().close()
        while self._replies:
            self._replies.pop().queue._discard()

    def _deadline(self, timeout: float | None) -> float:
        return _deadline(self._timeout if timeout is None else seconds("timeout", timeout))

    def _error_for(self, error: Error, server: Server) -> Error:
        """The error of a call, with the name of the service."""
        if isinstance(error, Closed):
            server.mark_gone()
            return Closed(f"service {self.name!r} has gone, or was closed, before it answered")
        return Timeout(f"service {self.name!r} has not answered in time")

    def _read(self, answer: object) -> Reply:
        if not isinstance(answer, Sample):
            raise Error(f"unexpected outcome of a call: {answer}")
        reply: Reply = calls.read_reply(self.name, answer, self._types, self._library)
        return reply

    def __repr__(self) -> str:
        return f"<tensorbus.Client {self.name!r}{' closed' if self._closed else ''}>"


def _warn(what: str) -> None:
    warnings.warn(f"Client.{what}", DeprecationWarning, stacklevel=3)


def _deadline(limit: float | None) -> float:
    return math.inf if limit is None else time.monotonic() + limit


class _Call:
    """One call: its server, and a queue for the answer.

    The queue is used again only if the answer has arrived. Otherwise it is discarded, so that a
    late answer cannot reach another call.
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
