"""A bridge of one queue between two domains of this machine, without a network."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from contextlib import suppress

from support.harness import PATIENCE
from tensorbus import _core
from tensorbus._base.participant import participant

Taken = Callable[["_core.Sample | _core.Outcome"], None]


def _outgoing(sample: _core.Sample) -> _core.Outgoing:
    outgoing = _core.Outgoing()
    for index in range(sample.tensor_count):
        outgoing.add_received(sample.memory(index))
    return outgoing


class Relay:
    """Makes a mirror, in the default domain, of the queue of this name of another domain."""

    def __init__(self, name: str, home_domain: str) -> None:
        self._home = _core.Queue.open(name, PATIENCE, participant(home_domain))
        self.mirror = _core.MirrorQueue(
            name=name,
            maxsize=self._home.maxsize,
            redeliver=self._home.redeliver,
            max_bytes=self._home.max_bytes,
            origin=("elsewhere", name),
            participant=participant(),
        )
        self._tags = 0
        self._demand = 0
        self._died = 0
        self._pending: dict[int, tuple[_core.Pending, Taken]] = {}  # by descriptor
        self._gets: list[_core.Pending] = []
        self._sent: dict[int, _core.Pending] = {}  # by tag
        self._numbers: dict[int, int] = {}  # of items in hand, by tag, with `redeliver`
        self._asked: dict[int, _core.Pending] = {}  # by id
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """As if the machine of the home were out of reach."""
        self._stopping.set()
        self._thread.join()
        self.mirror.close()
        for pending in (*self._gets, *self._sent.values()):
            pending.cancel()

    def _run(self) -> None:
        while not self._stopping.is_set():
            fds = [self.mirror.fileno(), *self._pending]
            for fd in select.select(fds, [], [], 0.02)[0]:
                if fd == self.mirror.fileno():
                    self._look()
                elif fd in self._pending:
                    self._take(fd)

    def _start(self, pending: _core.Pending, taken: Taken) -> _core.Pending:
        self._pending[pending.fileno()] = (pending, taken)
        return pending

    def _take(self, fd: int) -> None:
        pending, taken = self._pending[fd]
        outcome = pending.take()
        if outcome is not _core.Outcome.TIMED_OUT or pending.answered:
            del self._pending[fd]
            taken(outcome)

    def _look(self) -> None:
        for tag in self.mirror.surplus():
            if self.mirror.withdraw(tag):
                self._sent.pop(tag).cancel()
        for name, *values in self.mirror.take_events():
            getattr(self, f"_on_{name}")(*values)
        while len(self._gets) + len(self._sent) < self._demand:
            self._get()
        while self._gets and len(self._gets) + len(self._sent) > self._demand:
            pending = self._gets.pop()
            del self._pending[pending.fileno()]
            pending.cancel()

    def _get(self) -> None:
        died = self._died
        pending = self._home.start_get(hold=True)

        def taken(item: _core.Sample | _core.Outcome) -> None:
            self._gets.remove(pending)
            if isinstance(item, _core.Sample):
                self._offer(pending, item)
            elif item is _core.Outcome.SHUT_DOWN:
                self.mirror.end_gets(died)

        self._gets.append(self._start(pending, taken))

    def _offer(self, pending: _core.Pending, item: _core.Sample) -> None:
        self._tags += 1
        self._sent[self._tags] = pending
        self.mirror.offer(_outgoing(item), item.fields, self._tags)

    def _on_demand(self, gets: int) -> None:
        self._demand = gets

    def _on_put(self, id: int, item: _core.Sample, waits: bool) -> None:
        self._ask(id, self._home.start_put(_outgoing(item), item.fields, waits))

    def _on_call(self, id: int, verb: str, number: int) -> None:
        if verb != "poll":
            return self._ask(id, self._home.start_call(verb, number))
        poll = self._home.start_get(hold=True, waits=False)

        def taken(item: _core.Sample | _core.Outcome) -> None:
            if isinstance(item, _core.Sample):
                self._offer(poll, item)
                item = _core.Outcome.DONE
            self.mirror.answer(id, item)

        self._start(poll, taken)
        return None

    def _ask(self, id: int, pending: _core.Pending) -> None:
        def taken(outcome: _core.Sample | _core.Outcome) -> None:
            del self._asked[id]
            assert isinstance(outcome, _core.Outcome)
            self.mirror.answer(id, outcome, pending.values)

        self._asked[id] = self._start(pending, taken)

    def _on_cancel(self, id: int) -> None:
        with suppress(KeyError):  # it has been answered
            self._asked[id].request_cancel()

    def _on_taken(self, tag: int) -> None:
        pending = self._sent.pop(tag)
        assert pending.accept() is _core.Outcome.DONE
        if self._home.redeliver:
            self._numbers[tag] = pending.number

    def _on_spoilt(self, tag: int) -> None:
        self._sent.pop(tag).spoil()

    def _on_done(self, what: int) -> None:
        self._tell("done", what)

    def _on_died(self, what: int) -> None:
        self._died += 1
        self._tell("give_back", what)

    def _on_passed(self, items: int) -> None:
        pass

    def _tell(self, verb: str, what: int) -> None:
        number = self._numbers.pop(what) if self._home.redeliver else what

        def told(outcome: _core.Sample | _core.Outcome) -> None:
            assert outcome is _core.Outcome.DONE

        self._start(self._home.start_call(verb, number), told)
