"""The processes that offer a service: a client finds them, chooses one, and detects their ends."""

from __future__ import annotations

import math
import os
import threading
import time
from concurrent.futures import Future
from random import shuffle

from tensorbus._aio.shared_future import wait_for_shared
from tensorbus._base.arguments import Access
from tensorbus._base.errors import Closed, Error, OutOfMemory, Timeout
from tensorbus._base.participant import participant
from tensorbus._core import Outcome, Participant, Sample
from tensorbus._core import Queue as CoreQueue
from tensorbus._queues.queue import Queue
from tensorbus._services import calls
from tensorbus._services.watched_request import Lifeline, WatchedRequest

# Maximum of seconds for a search, even if no caller waits for it any longer; it also finds a
# service that starts meanwhile. It is also the time to wait for a server that does not reply, and
# the minimum between two searches for further servers.
_SEARCH_TIME = 0.2
# Minimum of seconds for a server to reply to a search, as in the core.
_MIN_REPLY_TIME = 0.1
# Seconds until the name of a service that has ended is removed.
_NAME_LINGERS = 0.005


class Replies:
    """A client's queue for one answer at a time."""

    def __init__(self, domain: str | None, access: Access | None) -> None:
        self.queue = Queue(access=access, domain=domain)
        self.core = self.queue._here  # constant: a forked child makes new queues
        self.address: str = self.queue.address
        self.taken = 0  # answers so far; `task_done` is never called

    def one_has_come(self) -> bool:
        return self.queue.stats.unfinished > self.taken


class Server:
    """One process that offers the service. The finder's lock guards the load."""

    def __init__(self, queue: CoreQueue, lock: threading.Lock, spent: float) -> None:
        self._queue = queue  # constant: a forked child has a new finder
        self._lock = lock
        self._life: Lifeline | None = None
        self._gone = False
        self._calls = 0  # unanswered calls of this client
        self._spent = spent  # seconds spent on this client's calls

    @property
    def gone(self) -> bool:
        return self._gone or (self._life is not None and self._life.cut)

    def mark_gone(self) -> None:
        self._gone = True

    @property
    def load(self) -> tuple[int, float]:
        """A key: the server with the smallest load gets the next call. Requires the lock."""
        return self._calls, self._spent

    def begin(self) -> None:
        """Counts a call that begins. Requires the lock."""
        self._calls += 1

    def end(self, seconds: float) -> None:
        """Counts the end of a call, successful or not, that took this number of seconds."""
        with self._lock:
            self._calls -= 1
            self._spent += seconds

    def put(self, item: calls.Item, deadline: float) -> WatchedRequest:
        return WatchedRequest(self._queue.start_put(*item), deadline)

    def put_sync(self, item: calls.Item, deadline: float) -> None:
        if not self._queue.put_now(*item):
            self.put(item, deadline).answer_sync()

    def get(self, replies: Replies, deadline: float) -> WatchedRequest:
        getting = replies.core.start_get()
        return WatchedRequest(getting, deadline, self._lifeline(), replies.one_has_come)

    def get_sync(self, replies: Replies, deadline: float) -> Sample | Outcome:
        left = None if deadline == math.inf else _left(deadline)
        life = self._life or self._lifeline()
        answer = replies.core.get_while(life.pending, left)
        if isinstance(answer, Sample):
            return answer
        if answer is Outcome.TIMED_OUT:
            raise Timeout("no answer in time")
        return self.get(replies, deadline).answer_sync()  # the server may have answered and ended

    def _lifeline(self) -> Lifeline:
        """Call it only after a put has succeeded: the `join` of an empty queue ends at once."""
        if self._life is None:
            with self._lock:
                if self._life is None:
                    self._life = Lifeline(self._queue.start_join())
        return self._life

    def close(self) -> None:
        """Call it when no call is pending: a pending call would not detect the server's end."""
        if self._life is not None:
            self._life.close()


class Finder:
    """Finds the running servers of a service. Any thread and event loop may use it.

    A search blocks: it opens the queues of servers, whose processes may be stopped. While no server
    is known, callers wait for a search. If files of the domain have changed since the last search,
    a call starts a search and does not wait for it. Callers in event loops share one search at a
    time, in its own thread: the threads of an event loop's executor are few, and the program needs
    them. The search ends soon after the last caller has stopped waiting. A caller without an event
    loop searches in its own thread.
    """

    def __init__(self, service: str, domain: str | None) -> None:
        self._service = service
        self._domain = domain
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        """Sets the initial state; also in a forked child: its parent's connections are unusable."""
        self._lock = threading.Lock()
        self._running_search: Future[None] | None = None  # the search that runs now
        self._home: Participant | None = None
        self._servers: dict[str, Server] = {}  # by server and number of the queue, see _key()
        self._silent: set[str] = set()  # addresses of servers that did not reply or had no room
        self._shortage: str | None = None  # text of the last search's OutOfMemory
        # The count of the domain's changes at which all servers were known; -1: not all are known.
        self._complete_at = -1
        self._next_search = 0.0
        self._process = os.getpid()  # last: other threads of the child test it

    async def choose(self, deadline: float) -> Server | None:
        """The server with the smallest load, on which a call has begun; None: none found in time.

        Raises:
            Closed: the finder is closed.
        """
        while (server := self._choose()) is None:
            if not await self.wait_for_server(deadline):
                return None
        return server

    def choose_sync(self, deadline: float) -> Server | None:
        """`choose` without an event loop."""
        while (server := self._choose()) is None:
            self._open(min(_left(deadline), _SEARCH_TIME))
            if _left(deadline) == 0:
                return self._choose()
        return server

    async def wait_for_server(self, deadline: float) -> bool:
        """Waits until a server is known; False after the deadline. Raises like `choose`."""
        while not self._has_server():
            left = _left(deadline)
            await _result(self._search(left), max(left, _MIN_REPLY_TIME))
            if _left(deadline) == 0:
                return self._has_server()
        return True

    def reset_after_fork(self) -> bool:
        """Resets the finder, and returns True, if this process is a forked child."""
        if self._process == os.getpid():
            return False
        self._reset()
        return True

    def missing_error(self) -> Error:
        """The error for a caller that got no server."""
        with self._lock:
            if self._shortage is not None:
                return OutOfMemory(self._shortage)
            if self._silent:
                return Timeout(f"service {self._service!r} has not answered in time")
            return Timeout(f"there was no service {self._service!r} in time")

    def close(self) -> None:
        """Closes the finder: pending searches raise `Closed`. A second call does nothing.

        Calls that have a server keep the server and its lifeline.
        """
        with self._lock:
            self._closed = True
            self._servers.clear()

    def _has_server(self) -> bool:
        with self._lock:
            return bool(self._living())

    def _choose(self) -> Server | None:
        with self._lock:
            servers = self._living()
            if not servers:
                return None
            if self._may_be_more():
                self._start_search(_SEARCH_TIME)
            first = next(iter(servers.values()))
            server = first if len(servers) == 1 else min(servers.values(), key=_load)
            server.begin()
            return server

    def _living(self) -> dict[str, Server]:
        """The known servers that have not ended. Requires the lock."""
        if self._closed:
            raise Closed(f"the client of service {self._service!r} is closed")
        gone = [key for key, server in self._servers.items() if server.gone]
        for key in gone:
            del self._servers[key]
            self._complete_at = -1
        return self._servers

    def _may_be_more(self) -> bool:
        """Whether a search for further servers is due. Requires the lock."""
        return (
            self._home is not None
            and self._home.domain_changes != self._complete_at
            and self._running_search is None
            and time.monotonic() >= self._next_search
        )

    def _search(self, left: float) -> Future[None]:
        with self._lock:
            return self._running_search or self._start_search(min(left, _SEARCH_TIME))

    def _start_search(self, timeout: float) -> Future[None]:
        """Starts a search; no search may be running. Requires the lock."""
        search: Future[None] = Future()
        threading.Thread(
            target=self._run,
            args=(search, timeout),
            name=f"looks for service {self._service}",
            daemon=True,  # the end of the program does not wait for it
        ).start()
        self._running_search = search
        return search

    def _run(self, search: Future[None], timeout: float) -> None:
        error: BaseException | None = None
        try:
            self._open(timeout)
        except BaseException as raised:
            error = raised
        with self._lock:
            self._running_search = None
        if error is None:
            search.set_result(None)
        else:
            search.set_exception(error)

    def _open(self, timeout: float) -> None:
        """Opens the queues of new servers; if there are no servers, waits for the first server.

        If no server is known, it stops after the first that it opens, so that the first call does
        not wait longer; the next search opens the others.
        """
        deadline = time.monotonic() + timeout
        home = participant(self._domain)
        changes = home.domain_changes  # read first: later changes cause another search
        with self._lock:
            known = {*self._servers}
            silent_before = self._silent
        listed = CoreQueue.addresses_of(calls.queue_name(self._service), home)
        others = [address for address in listed if _key(address) not in known]
        shuffle(others)  # spreads the clients over the servers
        # Silent servers come last: a search has time for only one of them.
        others.sort(key=silent_before.__contains__)
        silent: set[str] = set()
        shortage: str | None = None
        found = False
        for address in others:
            if (found and not known) or (silent and _left(deadline) == 0):
                break
            try:
                self._add(address, min(_SEARCH_TIME, _left(deadline)))
                found = True
            except Closed:  # the server has just ended
                pass
            except Timeout:
                silent.add(address)
            except OutOfMemory as error:
                silent.add(address)
                shortage = str(error)
        if shortage is not None and not (known or found):
            time.sleep(min(_NAME_LINGERS, _left(deadline)))
        if not (known or found or silent):
            self._wait_for_one(_left(deadline))
        complete = not silent and (bool(known) or (found and len(others) == 1))
        with self._lock:
            self._home = home
            self._complete_at = changes if complete else -1
            self._silent = silent.union(silent_before).intersection(others)
            # If the search found only silent servers, the shortage may persist.
            self._shortage = shortage or (self._shortage if silent else None)
            self._next_search = time.monotonic() + (_SEARCH_TIME if known else 0)

    def _wait_for_one(self, timeout: float) -> None:
        try:
            self._add(calls.queue_name(self._service), timeout)
        except (Closed, OutOfMemory):  # the server has just ended; or the next search reports it
            time.sleep(_NAME_LINGERS)
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
    """The part of a queue's address that identifies it: its server and its number."""
    return address.rpartition(":")[0]


async def _result(search: Future[None], timeout: float) -> None:
    """Waits until a search ends, for `timeout` seconds at most. A cancellation does not end it.

    Raises:
        Exception: the search raised it.
    """
    await wait_for_shared(search, timeout)
    if search.done():
        search.result()


def _left(deadline: float) -> float:
    return math.inf if math.isinf(deadline) else max(deadline - time.monotonic(), 0)
