"""The processes that offer a service: how a client finds them, chooses, and hears of their ends."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from random import shuffle

from tensorbus._base.arguments import Access
from tensorbus._base.errors import Closed, Error, OutOfMemory, Timeout
from tensorbus._base.participant import participant
from tensorbus._core import Outcome, Participant, Sample
from tensorbus._core import Queue as CoreQueue
from tensorbus._queues.queue import Queue
from tensorbus._services import calls
from tensorbus._services.asked import Asked, Lifeline

# Seconds that a look goes on, also when nobody waits for it any more. It hears of a service that
# comes. Also the patience with a server that is stopped, and the least time between two looks for
# more.
_LOOK = 0.2
# Seconds that a server has for its answer to a look, even if less time is left. As in the core.
_LEAST = 0.1
# Seconds in which the name of a service that has left goes, too.
_MOMENT = 0.005


class Replies:
    """A queue of a client for one answer at a time."""

    def __init__(self, domain: str | None, access: Access | None) -> None:
        self.queue = Queue(domain=domain)
        self.queue._receive_with(access)
        self.core = self.queue._here  # of this process, as the client's queues all are
        self.address: str = self.queue.address
        self.taken = 0  # none of which is ever done

    def one_has_come(self) -> bool:
        return self.queue.stats.unfinished > self.taken


class Server:
    """One process that offers the service, to one client. The finder's lock guards its load."""

    def __init__(self, queue: CoreQueue, lock: threading.Lock, spent: float) -> None:
        self._queue = queue  # of this process, as the finder is
        self._lock = lock
        self._life: Lifeline | None = None
        self._gone = False
        self._calls = 0  # of this client that it has not answered
        self._spent = spent  # seconds that this client's calls took

    @property
    def gone(self) -> bool:
        return self._gone or (self._life is not None and self._life.cut)

    def found_gone(self) -> None:
        self._gone = True

    @property
    def load(self) -> tuple[int, float]:
        """With the lock held. The server of the least one gets the next call."""
        return self._calls, self._spent

    def begin(self) -> None:
        """A call, with the lock held."""
        self._calls += 1

    def end(self, seconds: float) -> None:
        """A call that took so long, whatever came of it."""
        with self._lock:
            self._calls -= 1
            self._spent += seconds

    def put(self, item: calls.Item, deadline: float) -> Asked:
        return Asked(self._queue.start_put(*item), deadline)

    def put_sync(self, item: calls.Item, deadline: float) -> None:
        if not self._queue.put_now(*item):
            self.put(item, deadline).answer_sync()

    def get(self, replies: Replies, deadline: float) -> Asked:
        getting = replies.core.start_get()
        return Asked(getting, deadline, self._lifeline(), replies.one_has_come)

    def get_sync(self, replies: Replies, deadline: float) -> Sample | Outcome:
        left = None if deadline == math.inf else _left(deadline)
        life = self._life or self._lifeline()
        found = replies.core.get_while(life.pending, left)
        if isinstance(found, Sample):
            return found
        if found is Outcome.TIMED_OUT:
            raise Timeout("no answer in time")
        return self.get(replies, deadline).answer_sync()  # it may have answered before its end

    def _lifeline(self) -> Lifeline:
        """After a put was answered: before that, nothing may be in the queue, and a join ends."""
        if self._life is None:
            with self._lock:
                if self._life is None:
                    self._life = Lifeline(self._queue.start_join())
        return self._life

    def close(self) -> None:
        """When no call of it is under way: none would hear of its end."""
        if self._life is not None:
            self._life.close()


class Finder:
    """Knows the servers of a service that live. For any number of threads and loops.

    Looking blocks: it opens servers' queues, and asks processes that may be stopped. While no
    server is known the callers wait for a look. When files of the domain have changed since the
    last look, a call starts one and does not wait for it. Looks have a thread, one at a time for
    all callers; not one of an event loop's executor, which are few, and the program's. It ends by
    itself soon after nobody waits any more. A thread that has no event loop looks by itself.
    """

    def __init__(self, service: str, domain: str | None) -> None:
        self._service = service
        self._domain = domain
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        """At first, and in a forked child, whose parent has the connections."""
        self._lock = threading.Lock()
        self._look: Future[None] | None = None  # that is under way
        self._home: Participant | None = None
        self._servers: dict[str, Server] = {}  # by host and number of the queue
        self._silent: set[str] = set()  # addresses of servers that were stopped, or had no room
        self._shortage: str | None = None  # that the looks have met
        self._complete_at = (
            -1
        )  # changes of the domain up to which no server is missing; -1: some are
        self._next_look = 0.0
        self._process = os.getpid()  # last: other threads of the child ask for it

    async def chosen(self, deadline: float) -> Server | None:
        """The least busy server, with a call begun; None if there is none by the deadline.

        Raises:
            Closed: the finder is closed.
        """
        while (server := self._choose()) is None:
            if not await self.found(deadline):
                return None
        return server

    def chosen_sync(self, deadline: float) -> Server | None:
        """The same, without an event loop."""
        while (server := self._choose()) is None:
            self._open(min(_left(deadline), _LOOK))
            if _left(deadline) == 0:
                return self._choose()
        return server

    async def found(self, deadline: float) -> bool:
        """Is there a server by the deadline? Raises like `chosen`."""
        while not self._know():
            left = _left(deadline)
            await _result(self._looking(left), max(left, _LEAST))
            if _left(deadline) == 0:
                return self._know()
        return True

    def own(self) -> bool:
        """Begins anew in a forked child; False then."""
        if self._process == os.getpid():
            return True
        self._reset()
        return False

    def missing(self) -> Error:
        """Why there is no server."""
        with self._lock:
            if self._shortage is not None:
                return OutOfMemory(self._shortage)
            return Timeout(f"there was no service {self._service!r} in time")

    def close(self) -> None:
        """Who waits for a server gets `Closed` soon. A second call does nothing.

        Calls that have a server keep it, with the lifeline that tells of its end.
        """
        with self._lock:
            self._closed = True
            self._servers.clear()

    def _know(self) -> bool:
        with self._lock:
            return bool(self._living())

    def _choose(self) -> Server | None:
        with self._lock:
            servers = self._living()
            if not servers:
                return None
            if self._may_be_more():
                self._start_look(_LOOK)
            first = next(iter(servers.values()))
            server = first if len(servers) == 1 else min(servers.values(), key=_load)
            server.begin()
            return server

    def _living(self) -> dict[str, Server]:
        """With the lock held."""
        if self._closed:
            raise Closed(f"the client of service {self._service!r} is closed")
        gone = [key for key, server in self._servers.items() if server.gone]
        for key in gone:
            del self._servers[key]
            self._complete_at = -1
        return self._servers

    def _may_be_more(self) -> bool:
        """Is it time for a look? With the lock held."""
        return (
            self._home is not None
            and self._home.domain_changes != self._complete_at
            and self._look is None
            and time.monotonic() >= self._next_look
        )

    def _looking(self, left: float) -> Future[None]:
        with self._lock:
            return self._look or self._start_look(min(left, _LOOK))

    def _start_look(self, timeout: float) -> Future[None]:
        """With the lock held, while there is none."""
        look: Future[None] = Future()
        threading.Thread(
            target=self._run,
            args=(look, timeout),
            name=f"looks for service {self._service}",
            daemon=True,  # a program that ends does not wait for it
        ).start()
        self._look = look
        return look

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
        """Opens the queues of all servers that are not known; if none is, of one, which may come.

        The first call does not wait for more than one server; the second looks for the others.
        """
        until = time.monotonic() + timeout
        home = participant(self._domain)
        changes = home.domain_changes  # before the look: what comes meanwhile is seen later
        with self._lock:
            known = {*self._servers}
            silent_before = self._silent
        listed = CoreQueue.addresses_of(calls.queue_name(self._service), home)
        others = [address for address in listed if _key(address) not in known]
        shuffle(others)  # not all clients begin with the same server
        others.sort(key=silent_before.__contains__)  # a look may have time for one that is stopped
        silent: set[str] = set()
        shortage: str | None = None
        found = False
        for address in others:
            if (found and not known) or (silent and _left(until) == 0):
                break
            try:
                self._add(address, min(_LOOK, _left(until)))
                found = True
            except Closed:  # it has just left
                pass
            except Timeout:
                silent.add(address)
            except OutOfMemory as error:
                silent.add(address)
                shortage = str(error)
        if shortage is not None and not (known or found):
            time.sleep(min(_MOMENT, _left(until)))
        if not (known or found or silent):
            self._wait_for_one(_left(until))
        complete = not silent and (bool(known) or (found and len(others) == 1))
        with self._lock:
            self._home = home
            self._complete_at = changes if complete else -1
            self._silent = silent.union(silent_before).intersection(others)
            # A look without time for an answer says nothing else.
            self._shortage = shortage or (self._shortage if silent else None)
            self._next_look = time.monotonic() + (_LOOK if known else 0)

    def _wait_for_one(self, timeout: float) -> None:
        try:
            self._add(calls.queue_name(self._service), timeout)
        except (Closed, OutOfMemory):  # it has just left, or the next look meets the same
            time.sleep(_MOMENT)
        except Timeout:
            pass

    def _add(self, address: str, timeout: float) -> None:
        queue = Queue.open(address, timeout=timeout, domain=self._domain)
        with self._lock:
            if not self._closed:
                spent = min((server.load[1] for server in self._servers.values()), default=0.0)
                self._servers.setdefault(
                    _key(queue.address), Server(queue._here, self._lock, spent)
                )


def _load(server: Server) -> tuple[int, float]:
    return server.load


def _key(address: str) -> str:
    """Of a queue's address: its host and number, which a listing has, too."""
    return address.rpartition(":")[0]


async def _result(look: Future[None], timeout: float) -> None:
    """Waits for its end, or so long. Cancelled, it leaves the look to the others that wait for it.

    Raises:
        Exception: whatever the look has raised.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop was closed over its tasks
            loop.call_soon_threadsafe(ended.set)

    look.add_done_callback(wake)
    # Not wait_for(): in Python 3.11 that may swallow a cancellation.
    timer = None if math.isinf(timeout) else loop.call_later(timeout, ended.set)
    try:
        await ended.wait()
    finally:
        if timer is not None:
            timer.cancel()
    if look.done():
        look.result()


def _left(deadline: float) -> float:
    return math.inf if math.isinf(deadline) else max(deadline - time.monotonic(), 0)
