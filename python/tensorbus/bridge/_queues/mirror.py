"""The state of a mirrored queue: a queue of another machine for programs of this machine.

It uses no sockets and no clocks: it reacts to events of the mirror and to messages of the peer
(docs/internals/bridge_protocol.md, section 8).
"""

from __future__ import annotations

from typing import Any, Protocol

from tensorbus import _core
from tensorbus._base.errors import ProtocolError, Unsupported
from tensorbus._core import Code, Outcome
from tensorbus.bridge._queues.export import Peer, Values

_OUTCOMES = (Outcome.DONE, Outcome.TIMED_OUT, Outcome.SHUT_DOWN)  # by their code


class Local(Protocol):
    """The mirror in the core: a queue of this domain. It only decides which get has which item."""

    def take_events(self) -> list[tuple[Any, ...]]: ...
    def withdraw(self, tag: int) -> bool: ...
    def surplus(self) -> list[int]:
        """Returns the tags of waiting items that no get waits for.

        Items offered before the call have been assigned by then.
        """
        ...

    def answer(self, id: int, outcome: Outcome, values: Values) -> None: ...
    def deny(self, id: int, code: Code, text: str) -> None: ...
    def end_gets(self, died: int) -> None:
        """Ends waiting gets: the queue is shut down and empty.

        Does nothing if, with `redeliver`, more than `died` getters have died with an item in hand.
        """
        ...


class QueueMirror:
    """The mirror of one queue of the peer.

    Args:
        local: the mirror in the core.
        peer: the other bridge.
    """

    def __init__(self, local: Local, peer: Peer) -> None:
        self._local = local
        self._peer = peer
        self._demand = 0  # gets that wait here
        self._told = (0, 0)  # the last demand sent to the peer: `_demand` and `_seen`
        self._newest_tag = 0  # of the items received
        self._seen = 0  # the newest tag offered to local gets
        self._offered: set[int] = set()  # tags of offered items, neither taken nor refused yet
        self._owed: set[int] = set()  # ids of puts and calls without a reply
        self._polls: set[int] = set()  # ids of these that are polls

    def look(self) -> None:
        """Takes the events of programs of this machine. Call it also after offered()."""
        surplus = self._local.surplus()
        events = self._local.take_events()
        for event in events:
            if event[0] == "demand":
                self._demand = event[1]
            elif event[0] in ("taken", "spoilt"):
                self._offered.remove(event[1])
        refused = [tag for tag in surplus if self._local.withdraw(tag)]
        self._offered.difference_update(refused)
        self._tell_demand()  # before the events: otherwise the peer could request too many items
        for event in events:
            self._say(*event)
        for tag in refused:
            self._peer.send("refused", tag)

    def _say(self, kind: str, which: int, *more: Any) -> None:
        if kind == "put":
            self._put(which, *more)
        elif kind == "call":
            self._call(which, *more)
        elif kind != "demand" and (kind != "cancel" or which in self._owed):
            self._peer.send(kind, which)

    # Messages of the peer. Each raises ProtocolError if the message is invalid.
    def on_item(self, tag: int) -> None:
        """An item has arrived: offered(), refused() or spoilt() must follow."""
        if tag != self._newest_tag + 1:
            raise ProtocolError(f"item: {tag} after {self._newest_tag}")
        self._newest_tag = tag

    def on_answer(self, id: int, outcome: int, values: Values) -> None:
        if not 0 <= outcome < len(_OUTCOMES):
            raise ProtocolError(f"answer: the outcome {outcome}")
        self._settle(id)
        self._local.answer(id, _OUTCOMES[outcome], values)

    def on_denied(self, id: int, code: int, text: str) -> None:
        if not 0 <= code < len(Code):
            raise ProtocolError(f"denied: the code {code}")
        self._settle(id)
        self._local.deny(id, Code(code), text)

    def on_over(self, died: int) -> None:
        self._local.end_gets(died)  # an item returned since then may come here again

    # Results for an item that has arrived.
    def offered(self, tag: int) -> None:
        self._offered.add(tag)
        self._seen = tag

    def refused(self, tag: int) -> None:
        """No memory is free for the item now, and no get waits for it."""
        self._peer.send("refused", tag)

    def spoilt(self, tag: int) -> None:
        """The item can never be held here."""
        self._peer.send("spoilt", tag)

    @property
    def demand(self) -> int:
        """The number of gets that wait here."""
        return self._demand

    def is_poll(self, id: int) -> bool:
        """Returns True for a poll: take items that came before its answer first."""
        return id in self._polls

    def _put(self, id: int, sample: _core.Sample, waits: bool) -> None:
        try:
            self._peer.send("put", id, int(waits), fields=sample.fields, sample=sample)
        except Unsupported as error:
            self._local.deny(id, Code.UNSUPPORTED, str(error))
            return
        self._owed.add(id)

    def _call(self, id: int, verb: str, number: int) -> None:
        self._owed.add(id)
        if verb == "poll":
            self._polls.add(id)
        self._peer.send("call", id, verb, number)

    def _settle(self, id: int) -> None:
        if id not in self._owed:
            raise ProtocolError(f"the put or call {id} is not owed an answer")
        self._owed.remove(id)
        self._polls.discard(id)

    # Sends the demand, if it changes the number of items that the peer requests from the queue.
    def _tell_demand(self) -> None:
        now = (self._demand, self._seen)
        if self._asked_for(*self._told) != self._asked_for(*now):
            self._told = now
            self._peer.send("demand", *now)

    def _asked_for(self, demand: int, seen: int) -> int:
        return demand - sum(1 for tag in self._offered if tag > seen)
