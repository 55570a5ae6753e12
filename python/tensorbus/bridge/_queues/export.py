"""The state of a queue of this machine for programs of a peer.

It uses no sockets and no clocks: it reacts to messages of the peer and to results of the queue
(docs/internals/bridge_protocol.md, section 8).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol

from tensorbus import _core
from tensorbus._base.errors import ProtocolError, Unsupported
from tensorbus._core import Outcome

logger = logging.getLogger("tensorbus.bridge")

MAX_ASKED = 64  # max. items requested at a time from one queue for one peer
_MAX_OWED = 65_536  # max. puts and calls without a reply
_CALLS = {"state": 0, "join": 0, "shutdown": 1, "drain": 0, "close": 0}  # with max. number
_POLL = "poll"  # the call for a get that does not wait
_CODE_OF = {Outcome.DONE: 0, Outcome.TIMED_OUT: 1, Outcome.SHUT_DOWN: 2}
Values = tuple[int, int, int, int]
NO_VALUES: Values = (0, 0, 0, 0)


class Home(Protocol):
    """The queue. It executes commands in order, and reports their results to the export.

    The export numbers its gets. The peer gives each put and call an id.
    """

    def get(self, get: int, *, waits: bool) -> None: ...
    def cancel_get(self, get: int) -> None:
        """Cancels a get. If its item has arrived, returns the item to the queue."""
        ...

    def accept(self, get: int) -> None:
        """Accepts the item of a get. From then on this process has the item in hand."""
        ...

    def spoil(self, get: int) -> None:
        """Counts the item of a get as lost."""
        ...

    def done(self, number: int) -> None: ...
    def give_back(self, number: int) -> None: ...
    def put(self, id: int, item: Any, *, waits: bool) -> None: ...
    def call(self, id: int, verb: str, number: int) -> None: ...
    def cancel(self, id: int) -> None:
        """Cancels a put or a call, which is still answered."""
        ...


class Peer(Protocol):
    """The channel to the other bridge."""

    def send(
        self,
        verb: str,
        *arguments: int | str,
        fields: bytes = b"",
        sample: _core.Sample | None = None,
    ) -> int:
        """Sends a message, and returns its number."""
        ...

    def may_have_arrived(self, message: int) -> bool:
        """Returns True if the message with this number was sent completely."""
        ...


@dataclass
class _Item:
    """An item that the queue has offered to this bridge, and that was sent to the peer."""

    get: int
    number: int  # of the item in the queue
    message: int  # number of the message


class QueueExport:
    """The export of one queue to one peer.

    Args:
        home: the queue.
        peer: the other bridge.
        name: of the queue, for the log.
        redeliver: of the queue.
    """

    def __init__(self, home: Home, peer: Peer, name: str, *, redeliver: bool) -> None:
        self._home = home
        self._peer = peer
        self._name = name
        self._redeliver = redeliver
        self._demand = 0  # gets that wait on the peer's machine
        self._seen = 0  # the newest tag that the peer had offered to them by then
        self._newest_get = 0
        self._gets: dict[int, None] = {}  # gets that wait, oldest first
        self._polls: dict[int, int] = {}  # id of the call, by get
        self._tag = 0  # of the newest item
        self._items: dict[int, _Item] = {}  # by tag, until the peer has decided on them
        self._in_hand: dict[int, int] = {}  # with `redeliver`: number in the queue, by tag
        self._count_in_hand = 0  # without `redeliver`
        self._count_passed = 0  # without `redeliver`: not in hand any more, and not done yet
        self._owed: set[int] = set()  # ids of puts and calls without a reply
        self._come_back = 0  # items returned because their getters on the peer's machine died
        self._newest_before_return = 0  # the newest get when the last item was returned
        self._over = False  # the queue is shut down and has no item for this bridge
        self._paused = False  # after a failed get, until go_on()

    # Messages of the peer. Each raises ProtocolError if the message is invalid.
    def on_demand(self, count: int, seen: int) -> None:
        if not self._seen <= seen <= self._tag:
            raise ProtocolError(f"demand: it has seen {seen}, after {self._seen}, of {self._tag}")
        self._demand, self._seen = count, seen
        self._ask()

    def on_put(self, id: int, item: Any, *, waits: bool) -> None:
        self._owe(id)
        self._home.put(id, item, waits=waits)

    def on_call(self, id: int, verb: str, number: int) -> None:
        if verb != _POLL and not 0 <= number <= _CALLS.get(verb, -1):
            raise ProtocolError(f"call: {verb} {number}")
        self._owe(id)
        if verb == _POLL:
            self._newest_get += 1
            self._polls[self._newest_get] = id
            self._home.get(self._newest_get, waits=False)
        else:
            self._home.call(id, verb, number)

    def on_cancel(self, id: int) -> None:
        if id in self._owed and id not in self._polls.values():  # a poll is answered soon anyway
            self._home.cancel(id)

    def on_taken(self, tag: int) -> None:
        item = self._answered(tag)
        self._home.accept(item.get)
        if self._redeliver:
            self._in_hand[tag] = item.number
        else:
            self._count_in_hand += 1
        self._ask()

    def on_refused(self, tag: int) -> None:
        self._home.cancel_get(self._answered(tag).get)
        self._ask()

    def on_spoilt(self, tag: int) -> None:
        self._home.spoil(self._answered(tag).get)
        self._ask()

    def on_done(self, which: int) -> None:
        if self._redeliver:
            self._home.done(self._leaves_hand(which))
            return
        passed = min(which, self._count_passed)
        self._take_from_hand(which - passed)
        self._count_passed -= passed
        self._home.done(which)

    def on_died(self, which: int) -> None:
        if not self._redeliver:
            self._take_from_hand(which)
            return self._home.give_back(which)
        self._home.give_back(self._leaves_hand(which))
        self._come_back += 1
        self._newest_before_return = self._newest_get
        self._over = False  # the item may be offered again, for another program of the peer
        self._ask()

    def on_passed(self, count: int) -> None:
        self._take_from_hand(count)
        self._count_passed += count

    # Results of the queue.
    def on_item(self, get: int, sample: Any, fields: bytes, number: int) -> None:
        """A get has received its item, which is offered to this bridge until it is refused."""
        outcome = Outcome.DONE
        try:
            message = self._peer.send("item", self._tag + 1, fields=fields, sample=sample)
        except Unsupported as error:
            logger.warning("%s: an item is lost: %s", self._name, error)
            self._home.spoil(get)
            outcome = Outcome.TIMED_OUT
        else:
            self._tag += 1
            self._items[self._tag] = _Item(get, number, message)
        if get in self._polls:
            self._answer(self._polls.pop(get), outcome)
        else:
            del self._gets[get]
            self._ask()

    def on_no_item(self, get: int, outcome: Outcome) -> None:
        """A get has no item. SHUT_DOWN: there will be none; TIMED_OUT: not now."""
        poll = self._polls.pop(get, None)
        self._gets.pop(get, None)
        # A get that began before an item was returned may report SHUT_DOWN although the item waits.
        if outcome is Outcome.SHUT_DOWN and get > self._newest_before_return and not self._over:
            self._over = True
            self._peer.send("over", self._come_back)
        if poll is not None:  # also for SHUT_DOWN: `over` reports that the queue is shut down
            self._answer(poll, Outcome.TIMED_OUT)
        self._ask()

    def on_failed_get(self, get: int) -> None:
        """A get has failed. Others may fail, too: no new gets begin until go_on()."""
        poll = self._polls.pop(get, None)
        if poll is not None:
            return self._answer(poll, Outcome.TIMED_OUT)
        self._gets.pop(get, None)
        self._paused = True

    def go_on(self) -> None:
        self._paused = False
        self._ask()

    def on_answer(self, id: int, outcome: Outcome, values: Values) -> None:
        """A put or a call has a result."""
        self._answer(id, outcome, values)

    def on_denied(self, id: int, code: int, text: str) -> None:
        if id in self._owed:
            self._owed.remove(id)
            self._peer.send("denied", id, code, text)

    def end(self) -> None:
        """Ends the export: the session is over. The queue must execute all these commands.

        Puts are cancelled first. Otherwise other processes could take returned items, and so make
        room for these puts.
        """
        for id in self._owed - set(self._polls.values()):
            self._home.cancel(id)
        for get in (*self._gets, *self._polls):
            self._home.cancel_get(get)
        for item in self._items.values():
            if self._redeliver or not self._peer.may_have_arrived(item.message):
                self._home.cancel_get(item.get)
            else:  # a getter on the peer's machine may have it
                self._home.accept(item.get)
                self._count_in_hand += 1
        for number in self._in_hand.values():
            self._home.give_back(number)
        if self._count_in_hand:
            self._home.give_back(self._count_in_hand)
        if self._count_passed:
            self._home.done(self._count_passed)

    # Begins or cancels gets: the peer's demand minus the items that are under way to it.
    def _ask(self) -> None:
        under_way = sum(1 for tag in self._items if tag > self._seen)
        wanted = max(min(self._demand, MAX_ASKED) - under_way, 0)
        if self._over:
            wanted = 0
        elif self._paused:
            wanted = min(wanted, len(self._gets))
        while len(self._gets) > wanted:
            get, _ = self._gets.popitem()
            self._home.cancel_get(get)
        while len(self._gets) < wanted:
            self._newest_get += 1
            self._gets[self._newest_get] = None
            self._home.get(self._newest_get, waits=True)

    def _owe(self, id: int) -> None:
        if id in self._owed or len(self._owed) >= _MAX_OWED:
            raise ProtocolError(f"the put or call {id}: its id is in use, or too many are pending")
        self._owed.add(id)

    def _answer(self, id: int, outcome: Outcome, values: Values = NO_VALUES) -> None:
        if id in self._owed:
            self._owed.remove(id)
            self._peer.send("answer", id, _CODE_OF[outcome], *values)

    def _answered(self, tag: int) -> _Item:
        item = self._items.pop(tag, None)
        if item is None:
            raise ProtocolError(f"the item {tag} is not under way")
        return item

    def _leaves_hand(self, tag: int) -> int:
        number = self._in_hand.pop(tag, None)
        if number is None:
            raise ProtocolError(f"the item {tag} is in nobody's hand")
        return number

    def _take_from_hand(self, count: int) -> None:
        if count > self._count_in_hand:
            raise ProtocolError(f"{count} items, but only {self._count_in_hand} are in hand")
        self._count_in_hand -= count
