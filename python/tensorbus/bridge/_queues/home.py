"""A queue of this machine as its bridge uses it: without waiting, and in the order of the calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from tensorbus import _core
from tensorbus._base.errors import BY_CODE, Closed, Error, OutOfMemory
from tensorbus._core import Code, Outcome, Pending
from tensorbus.bridge._queues.export import NO_VALUES, QueueExport, Values
from tensorbus.bridge._streams.channel import LOOK_AGAIN, ChannelMessage

_GO_ON = 0.1  # seconds after an error that other gets may have, too

# Does something; returns the request whose descriptor will tell when to try again.
_Command = Callable[[], Pending | None]


class QueueHome:
    """A client of a queue, in the event loop. See `Home` of `_queues.export`."""

    def __init__(self, queue: _core.Queue) -> None:
        self.export: QueueExport | None = None  # None: nobody is told anything
        self._queue = queue
        self._loop = asyncio.get_running_loop()
        self._commands: deque[_Command] = deque()  # the socket takes no more
        self._gets: dict[int, Pending] = {}  # also those whose item has come
        self._asked: dict[int, Pending] = {}  # puts and calls
        self._puts: deque[tuple[int, ChannelMessage, bool]] = deque()  # there is no memory
        self._putting: asyncio.TimerHandle | None = None
        self._untold: set[Pending] = set()  # whose answers nobody needs

    def finish(self) -> None:
        """Nobody is told anything any more. What it was told to do is still done."""
        self.export = None
        if self._putting is not None:
            self._putting.cancel()
        self._puts.clear()
        for pending in self._asked.values():
            self._loop.remove_reader(pending.fileno())
        self._asked.clear()

    # Gets.
    def get(self, get: int, *, waits: bool) -> None:
        self._do(lambda: self._start_get(get, waits))

    def cancel_get(self, get: int) -> None:
        if get in self._gets:
            self._loop.remove_reader(self._gets[get].fileno())
        self._do(lambda: self._cancel_get(get))

    def accept(self, get: int) -> None:
        self._do(lambda: self._answer_offer(get, Pending.accept))

    def spoil(self, get: int) -> None:
        self._do(lambda: self._answer_offer(get, Pending.spoil))

    def done(self, number: int) -> None:
        self._do(lambda: self._tell("done", number))

    def give_back(self, number: int) -> None:
        self._do(lambda: self._tell("give_back", number))

    # Puts and calls.
    def put(self, id: int, item: ChannelMessage, *, waits: bool) -> None:
        self._puts.append((id, item, waits))
        if len(self._puts) == 1:
            self._put_all()

    def call(self, id: int, verb: str, number: int) -> None:
        self._do(lambda: self._start_call(id, verb, number))

    def cancel(self, id: int) -> None:
        for one in self._puts:
            if one[0] == id:
                self._puts.remove(one)
                return self._answer(id, Outcome.TIMED_OUT)
        self._do(lambda: self._request_cancel(id))

    def _start_get(self, get: int, waits: bool) -> None:
        try:
            pending = self._gets[get] = self._queue.start_get(hold=True, waits=waits)
        except Error:
            self._loop.call_soon(self._fail_get, get)
            raise
        if self.export is not None:
            self._loop.add_reader(pending.fileno(), self._on_get, get, pending)

    def _cancel_get(self, get: int) -> None:
        pending = self._gets.pop(get, None)
        if pending is not None:
            pending.cancel()

    def _on_get(self, get: int, pending: Pending) -> None:
        try:
            found = pending.take()
        except Error:
            found = Outcome.CLOSED
        if found is Outcome.TIMED_OUT and not pending.answered:
            return
        self._loop.remove_reader(pending.fileno())
        if isinstance(found, _core.Sample):
            if self.export is not None:
                with suppress(Closed):  # the session is over, and so is this soon
                    self.export.on_item(get, found, found.fields, pending.number)
            return
        if found in (Outcome.TIMED_OUT, Outcome.SHUT_DOWN):
            del self._gets[get]
            if self.export is not None:
                with suppress(Closed):
                    self.export.on_no_item(get, found)
        else:
            self._fail_get(get)

    # No memory, or that of the item is gone, or the queue is.
    def _fail_get(self, get: int) -> None:
        self._gets.pop(get, None)
        if self.export is not None:
            with suppress(Closed):
                self.export.on_failed_get(get)
            self._loop.call_later(_GO_ON, self._go_on)

    def _go_on(self) -> None:
        if self.export is not None:
            self.export.go_on()

    def _answer_offer(self, get: int, how: Callable[[Pending], Outcome | None]) -> Pending | None:
        pending = self._gets[get]
        with suppress(Error):  # the home is gone
            if how(pending) is Outcome.TIMED_OUT:
                return pending
        del self._gets[get]
        return None

    def _tell(self, verb: str, number: int) -> None:
        pending = self._queue.start_call(verb, number)
        self._untold.add(pending)
        self._loop.add_reader(pending.fileno(), self._forget, pending)

    def _forget(self, pending: Pending) -> None:
        self._loop.remove_reader(pending.fileno())
        self._untold.discard(pending)

    # As far as there is memory for them.
    def _put_all(self) -> None:
        self._putting = None
        while self._puts:
            id, message, waits = self._puts[0]
            try:
                outgoing = message.try_outgoing()
            except Error as error:
                self._deny(id, error)
            else:
                if outgoing is None or not self._start_put(id, outgoing, message.fields, waits):
                    self._putting = self._loop.call_later(LOOK_AGAIN, self._put_all)
                    return
            self._puts.popleft()

    # False: there is no memory now.
    def _start_put(self, id: int, outgoing: _core.Outgoing, fields: bytes, waits: bool) -> bool:
        try:
            self._ask(id, lambda: self._queue.start_put(outgoing, fields, waits))
        except OutOfMemory:
            return False
        except Error as error:
            self._deny(id, error)
        return True

    def _ask(self, id: int, start: Callable[[], Pending]) -> None:
        pending = self._asked[id] = start()
        self._loop.add_reader(pending.fileno(), self._on_answer, id, pending)

    def _start_call(self, id: int, verb: str, number: int) -> None:
        try:
            self._ask(id, lambda: self._queue.start_call(verb, number))
        except Error as error:
            self._deny(id, error)

    def _request_cancel(self, id: int) -> None:
        if id in self._asked:
            self._asked[id].request_cancel()

    def _on_answer(self, id: int, pending: Pending) -> None:
        try:
            outcome = pending.take()
        except Error as error:
            return self._deny(id, error)
        if outcome is Outcome.TIMED_OUT and not pending.answered:
            return
        if outcome is Outcome.CLOSED:
            return self._deny(id, Closed("the queue is closed, or its process is gone"))
        assert not isinstance(outcome, _core.Sample)
        first, second, third, fourth = pending.values
        self._answer(id, outcome, (first, second, third, fourth))

    def _answer(self, id: int, outcome: Outcome, values: Values = NO_VALUES) -> None:
        self._end_asked(id)
        if self.export is not None:
            with suppress(Closed):
                self.export.on_answer(id, outcome, values)

    def _deny(self, id: int, error: Error) -> None:
        self._end_asked(id)
        if self.export is not None:
            with suppress(Closed):
                self.export.on_denied(id, _code_of(error), str(error))

    def _end_asked(self, id: int) -> None:
        pending = self._asked.pop(id, None)
        if pending is not None:
            self._loop.remove_reader(pending.fileno())

    # In order, also where one has to wait.
    def _do(self, command: _Command) -> None:
        self._commands.append(command)
        if len(self._commands) == 1:
            self._run_commands()

    def _run_commands(self) -> None:
        while self._commands:
            blocked = None
            with suppress(Error):  # the home is gone, or there are no descriptors
                blocked = self._commands[0]()
            if blocked is not None:
                self._loop.add_reader(blocked.fileno(), self._try_again, blocked)
                return
            self._commands.popleft()

    def _try_again(self, blocked: Pending) -> None:
        self._loop.remove_reader(blocked.fileno())
        self._run_commands()


def _code_of(error: Error) -> int:
    found = next((at for at, kind in enumerate(BY_CODE) if type(error) is kind), None)
    return int(Code.SYSTEM) if found is None else found
