"""A client of a queue of this machine that never blocks, and sends commands in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tensorbus import _core
from tensorbus._base.errors import BY_CODE, Closed, Error
from tensorbus._core import Code, Outcome, Pending
from tensorbus.bridge._budget import PeerBudget
from tensorbus.bridge._queues.export import NO_VALUES, QueueExport, Values
from tensorbus.bridge._shortage import FIRST_WAIT, Again, Backoff, Watch, is_shortage
from tensorbus.bridge._streams.channel import LOOK_AGAIN, ChannelMessage

_OF_REQUEST = 2  # descriptors of a request
_LONGEST_PUT_DELAY = 0.5  # seconds between tries; memory is often free soon

# Executes a command. Returns None, or a request: its descriptor is readable when the command must
# be tried again.
_Command = Callable[[], Pending | None]


class _Request:
    """A pending request to the queue. Its descriptors are charged until close().

    Args:
        start: sends the request.
        budget: of the peer; None: not charged.
        look: called when a reply may have arrived.
    """

    def __init__(
        self,
        start: Callable[[], Pending],
        budget: PeerBudget | None,
        look: Callable[[], object],
    ) -> None:
        if budget is not None:
            budget.descriptors.take(_OF_REQUEST)
        self._budget = budget
        self._watch: Watch | None = None
        try:
            self.pending = start()
        except BaseException:
            self.close()
            raise
        self._watch = Watch(self.pending.fileno, look)

    def unwatch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def close(self) -> None:
        self.unwatch()
        if self._budget is not None:
            self._budget.descriptors.give_back(_OF_REQUEST)
            self._budget = None


class QueueHome:
    """A client of a queue, in the event loop. See `Home` of `_queues.export`."""

    def __init__(self, queue: _core.Queue, name: str, budget: PeerBudget) -> None:
        self.export: QueueExport | None = None  # None: results are dropped
        self._queue = queue
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._commands: deque[_Command] = deque()  # wait while the socket is full
        self._blocked: Watch | None = None  # of the first command
        self._gets: dict[int, _Request] = {}  # also those whose item has arrived
        self._asked: dict[int, _Request] = {}  # puts and calls
        self._puts: deque[tuple[int, ChannelMessage, bool]] = deque()  # wait for memory
        self._putting: asyncio.TimerHandle | None = None
        self._put_delay = LOOK_AGAIN  # seconds
        self._getting = Backoff(f"items of {name} are not requested", budget.log.warning)
        self._going_on: asyncio.TimerHandle | None = None
        self._untold: deque[tuple[str, int]] = deque()  # `done` and `give_back`, not sent yet
        self._tell_all = Again(
            f"items of {name} are not finished or returned", self._tell_some, budget.log.warning
        )
        self._told: set[_Request] = set()  # sent; their replies are not needed

    def finish(self) -> None:
        """Drops all further results. Commands given before are still executed."""
        self.export = None
        if self._putting is not None:
            self._putting.cancel()
        if self._going_on is not None:
            self._going_on.cancel()
        self._puts.clear()
        for request in self._asked.values():
            request.close()
        self._asked.clear()

    # Gets.
    def get(self, get: int, *, waits: bool) -> None:
        self._do(lambda: self._start_get(get, waits))

    def cancel_get(self, get: int) -> None:
        if get in self._gets:
            self._gets[get].unwatch()
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
        def start() -> Pending:
            return self._queue.start_get(hold=True, waits=waits)

        try:
            self._gets[get] = _Request(start, self._budget, partial(self._on_get, get))
        except (Error, MemoryError) as error:
            self._loop.call_soon(self._fail_get, get, error)

    def _cancel_get(self, get: int) -> None:
        request = self._gets.pop(get, None)
        if request is not None:
            request.close()
            request.pending.cancel()

    def _on_get(self, get: int) -> None:
        request = self._gets[get]
        pending, error = request.pending, None
        try:
            found = pending.take()
        except (Error, MemoryError) as raised:
            found, error = Outcome.CLOSED, raised
        if found is Outcome.TIMED_OUT and not pending.answered:
            return
        request.unwatch()
        if isinstance(found, _core.Sample):
            if self.export is not None:
                with suppress(Closed):  # the session is over; finish() follows soon
                    self.export.on_item(get, found, found.fields, pending.number)
            return
        if found in (Outcome.TIMED_OUT, Outcome.SHUT_DOWN):
            self._end_get(get)
            if self.export is not None:
                with suppress(Closed):
                    self.export.on_no_item(get, found)
        else:
            self._fail_get(get, error or Closed("the queue is closed, or its process is gone"))

    def _end_get(self, get: int) -> None:
        request = self._gets.pop(get, None)
        if request is not None:
            request.close()

    # No memory is free, or the memory of the item is gone, or the queue is gone.
    def _fail_get(self, get: int, error: BaseException) -> None:
        self._end_get(get)
        if self.export is None:
            return
        with suppress(Closed):
            self.export.on_failed_get(get)
        if self._going_on is None:
            delay = self._getting.failed(error) if is_shortage(error) else FIRST_WAIT
            self._going_on = self._loop.call_later(delay, self._go_on)

    def _go_on(self) -> None:
        self._going_on = None
        if self.export is not None:
            self.export.go_on()
            self._loop.call_soon(self._look_at_gets)

    def _look_at_gets(self) -> None:
        if self._going_on is None:  # no get has failed since _go_on()
            self._getting.succeeded()

    def _answer_offer(self, get: int, how: Callable[[Pending], Outcome | None]) -> Pending | None:
        pending = self._gets[get].pending
        with suppress(Error):  # the queue is gone
            if how(pending) is Outcome.TIMED_OUT:
                return pending
        self._end_get(get)
        return None

    # If no descriptor is free, it is sent later, and does not delay commands that release
    # descriptors.
    def _tell(self, verb: str, number: int) -> None:
        self._untold.append((verb, number))
        if not self._tell_all.due:
            self._tell_all()

    def _tell_some(self) -> None:
        while self._untold:
            start = partial(self._queue.start_call, *self._untold[0])
            try:
                self._told.add(_Request(start, None, self._forget_answered))
            except Error as error:  # not a shortage: the queue is gone
                if is_shortage(error):
                    raise
            self._untold.popleft()

    def _forget_answered(self) -> None:
        for request in [one for one in self._told if one.pending.answered]:
            request.close()
            self._told.remove(request)

    # Starts waiting puts while memory and descriptors are free.
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
                    self._putting = self._loop.call_later(self._put_delay, self._put_all)
                    self._put_delay = min(2 * self._put_delay, _LONGEST_PUT_DELAY)
                    return
            self._put_delay = LOOK_AGAIN
            self._puts.popleft()

    # Returns False if no memory or no descriptor is free now.
    def _start_put(self, id: int, outgoing: _core.Outgoing, fields: bytes, waits: bool) -> bool:
        try:
            self._ask(id, lambda: self._queue.start_put(outgoing, fields, waits))
        except MemoryError:
            return False
        except Error as error:
            self._deny(id, error)
        return True

    def _ask(self, id: int, start: Callable[[], Pending]) -> None:
        self._asked[id] = _Request(start, self._budget, partial(self._on_answer, id))

    def _start_call(self, id: int, verb: str, number: int) -> None:
        try:
            self._ask(id, lambda: self._queue.start_call(verb, number))
        except Error as error:
            self._deny(id, error)

    def _request_cancel(self, id: int) -> None:
        if id in self._asked:
            self._asked[id].pending.request_cancel()

    def _on_answer(self, id: int) -> None:
        pending = self._asked[id].pending
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
        request = self._asked.pop(id, None)
        if request is not None:
            request.close()

    # Executes commands in order; a blocked command delays those after it.
    def _do(self, command: _Command) -> None:
        self._commands.append(command)
        if len(self._commands) == 1:
            self._run_commands()

    def _run_commands(self) -> None:
        while self._commands:
            blocked = None
            with suppress(Error):  # the queue is gone
                blocked = self._commands[0]()
            if blocked is not None:
                self._blocked = Watch(blocked.fileno, self._try_again)
                return
            self._commands.popleft()

    def _try_again(self) -> None:
        assert self._blocked is not None
        self._blocked.close()
        self._blocked = None
        self._run_commands()


def _code_of(error: Error) -> int:
    found = next((at for at, kind in enumerate(BY_CODE) if type(error) is kind), None)
    return int(Code.SYSTEM) if found is None else found
