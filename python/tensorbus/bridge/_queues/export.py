"""A queue of this machine for programs of another: what is asked of it, and what becomes of that.

It knows no sockets and no clocks: it decides from messages of the peer and from answers of the
queue (docs/internals/bridge_protocol.md, section 8).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol

from tensorbus import _core
from tensorbus._base.errors import ProtocolError, Unsupported
from tensorbus._core import Outcome

logger = logging.getLogger("tensorbus.bridge")

MOST_ASKED = 64  # items, of one queue for one peer at a time
_MOST_OWED = 65_536  # puts and calls
_CALLS = {"state": 0, "join": 0, "shutdown": 1, "drain": 0, "close": 0}  # and their largest number
_POLL = "poll"  # of the calls: a get that does not wait
_CODE_OF = {Outcome.DONE: 0, Outcome.TIMED_OUT: 1, Outcome.SHUT_DOWN: 2}
Values = tuple[int, int, int, int]
NO_VALUES: Values = (0, 0, 0, 0)


class Home(Protocol):
    """The queue. It does what it is told in that order, and tells the export what came of it.

    A get is named by a number of the export's, a put or a call by the id that the peer gave it.
    """

    def get(self, get: int, *, waits: bool) -> None: ...
    def cancel_get(self, get: int) -> None:
        """Also of an item that has come: it goes back."""
        ...

    def accept(self, get: int) -> None:
        """The item that has come is in this process's hand."""
        ...

    def spoil(self, get: int) -> None:
        """The item that has come counts as lost."""
        ...

    def done(self, number: int) -> None: ...
    def give_back(self, number: int) -> None: ...
    def put(self, id: int, item: Any, *, waits: bool) -> None: ...
    def call(self, id: int, verb: str, number: int) -> None: ...
    def cancel(self, id: int) -> None:
        """Of a put or a call; it is still answered."""
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
        """Returns the number of the message."""
        ...

    def may_have_arrived(self, message: int) -> bool:
        """Whether it was sent to its end."""
        ...


@dataclass
class _Item:
    """Offered to this bridge, and sent to the peer."""

    get: int
    number: int  # at home
    message: int


class QueueExport:
    """Of one queue, for one peer.

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
        self._demand = 0
        self._seen = 0
        self._newest_get = 0
        self._gets: dict[int, None] = {}  # that wait, the oldest first
        self._polls: dict[int, int] = {}  # id of the call, by get
        self._tag = 0  # of the newest item
        self._items: dict[int, _Item] = {}  # by tag, until the peer says what became of them
        self._in_hand: dict[int, int] = {}  # with `redeliver`: number at home, by tag
        self._count_in_hand = 0  # without
        self._count_passed = 0
        self._owed: set[int] = set()  # puts and calls
        self._come_back = 0  # items whose getters there are dead
        self._newest_before_return = 0  # get, of the last one
        self._over = False  # nothing is left for this bridge
        self._paused = False

    # What the peer says. Each raises ProtocolError if that makes no sense.
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
        if id in self._owed and id not in self._polls.values():  # a poll is answered soon
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
        self._over = False  # it may come again, also to another program of the peer's
        self._ask()

    def on_passed(self, count: int) -> None:
        self._take_from_hand(count)
        self._count_passed += count

    # What the home says.
    def on_item(self, get: int, sample: Any, fields: bytes, number: int) -> None:
        """A get has its item, which is this bridge's for as long as it is not refused."""
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
        """There is none: TIMED_OUT, or SHUT_DOWN: and there will be none."""
        poll = self._polls.pop(get, None)
        self._gets.pop(get, None)
        # What came back after it was asked, the home may not have counted.
        if outcome is Outcome.SHUT_DOWN and get > self._newest_before_return and not self._over:
            self._over = True
            self._peer.send("over", self._come_back)
        if poll is not None:  # the peer knows the end by now, and if it is one
            self._answer(poll, Outcome.TIMED_OUT)
        self._ask()

    def on_failed_get(self, get: int) -> None:
        """It has an error, which others may have, too: none is asked for until go_on()."""
        poll = self._polls.pop(get, None)
        if poll is not None:
            return self._answer(poll, Outcome.TIMED_OUT)
        self._gets.pop(get, None)
        self._paused = True

    def go_on(self) -> None:
        self._paused = False
        self._ask()

    def on_answer(self, id: int, outcome: Outcome, values: Values) -> None:
        """Of a put or a call."""
        self._answer(id, outcome, values)

    def on_denied(self, id: int, code: int, text: str) -> None:
        if id in self._owed:
            self._owed.remove(id)
            self._peer.send("denied", id, code, text)

    def end(self) -> None:
        """The session is over: the peer says nothing more. The home must do what it is told.

        The puts come first: what comes back and is got again would make room for them.
        """
        for id in self._owed - set(self._polls.values()):
            self._home.cancel(id)
        for get in (*self._gets, *self._polls):
            self._home.cancel_get(get)
        for item in self._items.values():
            if self._redeliver or not self._peer.may_have_arrived(item.message):
                self._home.cancel_get(item.get)
            else:  # a getter there may have it
                self._home.accept(item.get)
                self._count_in_hand += 1
        for number in self._in_hand.values():
            self._home.give_back(number)
        if self._count_in_hand:
            self._home.give_back(self._count_in_hand)
        if self._count_passed:
            self._home.done(self._count_passed)

    # As many gets wait at home as the peer's programs need, beside the items that are under way.
    def _ask(self) -> None:
        under_way = sum(1 for tag in self._items if tag > self._seen)
        wanted = max(min(self._demand, MOST_ASKED) - under_way, 0)
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
        if id in self._owed or len(self._owed) >= _MOST_OWED:
            raise ProtocolError(f"the put or call {id} is one too many")
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
            raise ProtocolError(f"{count} items, and {self._count_in_hand} are in hand")
        self._count_in_hand -= count
