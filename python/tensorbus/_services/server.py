"""The process that offers a service: how a client finds it, and hears of its end."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import Future
from contextlib import suppress

from tensorbus._base.errors import Closed, Timeout
from tensorbus._queues.queue import Queue
from tensorbus._services import calls
from tensorbus._services.asked import Asked, Lifeline

# Seconds that a look goes on when nobody waits for it any more. It hears of a service that comes.
_LOOK = 0.2
# Seconds in which the name of a service that has left goes, too.
_MOMENT = 0.005


class Replies:
    """A queue of a client for one answer at a time."""

    def __init__(self, domain: str | None) -> None:
        self.queue = Queue(domain=domain)
        self.taken = 0  # none of which is ever done

    def one_has_come(self) -> bool:
        return self.queue.stats.unfinished > self.taken


class Server:
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

    def put(self, item: calls.Item, deadline: float) -> Asked:
        return Asked(self._queue._here.start_put(*item), deadline)

    def get(self, replies: Replies, deadline: float) -> Asked:
        """After a put was answered: before that, nothing may be in the queue, and a join ends."""
        if self._life is None:
            self._life = Lifeline(self._queue._here.start_join())
        return Asked(replies.queue._here.start_get(), deadline, self._life, replies.one_has_come)

    def close(self) -> None:
        if self._life is not None:
            self._life.close()


class Finder:
    """Looks for a server when none is known, or it is gone. For any number of threads and loops.

    Looking blocks: it opens the server's queue, and asks a process that may be stopped. For event
    loops a thread looks, one at a time for all that wait; not one of the loop's executor, which
    are few, and the program's. It ends by itself soon after nobody waits any more.
    """

    def __init__(self, service: str, domain: str | None) -> None:
        self._service = service
        self._domain = domain
        self._closed = False
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._look: Future[None] | None = None  # that is under way

    async def found(self, deadline: float) -> Server | None:
        """A server that lives; None if there is none by the deadline.

        Raises:
            Closed: the finder is closed.
        """
        while (server := self._known()) is None:
            await _result(self._looking(_left(deadline)))
            if _left(deadline) == 0:
                return self._known()
        return server

    def found_sync(self, deadline: float) -> Server | None:
        """The same, without an event loop."""
        while (server := self._known()) is None:
            self._open(_left(deadline))
            if _left(deadline) == 0:
                return self._known()
        return server

    def close(self) -> None:
        """Who waits gets `Closed` soon. A second call does nothing."""
        with self._lock:
            self._closed = True
            if self._server is not None:
                self._server.close()
                self._server = None

    def _known(self) -> Server | None:
        with self._lock:
            if self._closed:
                raise Closed(f"the client of service {self._service!r} is closed")
            return None if self._server is None or self._server.gone else self._server

    def _looking(self, left: float) -> Future[None]:
        with self._lock:
            if self._look is None:
                look: Future[None] = Future()
                threading.Thread(
                    target=self._run,
                    args=(look, min(left, _LOOK)),
                    name=f"looks for service {self._service}",
                    daemon=True,  # a program that ends does not wait for it
                ).start()
                self._look = look
            return self._look

    def _run(self, look: Future[None], timeout: float) -> None:
        error: BaseException | None = None
        try:
            self._open(timeout)
        except BaseException as raised:
            error = raised
        with self._lock:
            self._look = None
        if error is None:
            look.set_result(None)
        else:
            look.set_exception(error)

    def _open(self, timeout: float) -> None:
        try:
            queue = Queue.open(
                calls.queue_name(self._service), timeout=timeout, domain=self._domain
            )
        except Timeout:
            return
        except Closed:  # it has just left
            time.sleep(_MOMENT)
            return
        with self._lock:
            if self._server is None or self._server.gone:
                self._server = Server(queue)


async def _result(look: Future[None]) -> None:
    """Cancelled, it leaves the look to the others that wait for it."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop was closed over its tasks
            loop.call_soon_threadsafe(ended.set)

    look.add_done_callback(wake)
    await ended.wait()
    look.result()


def _left(deadline: float) -> float:
    return math.inf if math.isinf(deadline) else max(deadline - time.monotonic(), 0)
