"""What became of every item, by the rules of docs/queues.md.

The ledger reads records only. When a process died between the intent and the outcome of a step, the
ledger allows both outcomes of that step, and nothing else. Every other deviation is in `wrong`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from storm.records import ATTACH, DONE, FULL, GET, INTENT, LEAVES, OK, PUT, WRONG, Record

SHARE = "share"


@dataclass
class Life:
    """A process, and what it wrote. `ended` is when it was killed, on the clock of the records."""

    name: str
    records: list[Record]
    ended: int | None = None

    def __post_init__(self) -> None:
        for record in self.records:
            if record.what == LEAVES:
                self.ended = record.time


@dataclass(frozen=True)
class Totals:
    """What a queue says of itself when everybody has gone and it has been emptied."""

    lost: int = 0
    items: int = 0
    unfinished: int = 0


@dataclass
class Delivery:
    time: int
    life: Life
    done: str = ""  # INTENT, then OK

    def is_over_by(self, moment: int) -> bool:
        """Its getter had died by then, and no `task_done` of it was confirmed."""
        return self.done != OK and self.life.ended is not None and self.life.ended <= moment


@dataclass
class Item:
    put: str = ""  # the outcome; INTENT where that is not known; empty: nobody put it
    deliveries: list[Delivery] = field(default_factory=list)


@dataclass
class Hand:
    """What one process has of one queue."""

    ended: bool
    undone: dict[int, Delivery] = field(default_factory=dict)
    asks: bool = False  # a get without an outcome
    certain: bool = False  # the last step was a get that brought the one item that is not done

    def follow(self, record: Record, life: Life, item: Item) -> None:
        self.certain = False
        if record.what == GET:
            self.asks = record.outcome == INTENT
            if record.outcome == OK:
                self.certain = not self.undone
                self.undone[record.item] = Delivery(record.time, life)
                item.deliveries.append(self.undone[record.item])
        elif record.what == DONE and record.item in self.undone:
            self.undone[record.item].done = record.outcome
            if record.outcome == OK:
                del self.undone[record.item]

    def losses(self) -> tuple[int, int]:
        """How many items at least, and at most, were lost with it (without `redeliver`)."""
        if not self.ended:
            return 0, 0
        return int(self.certain), int(bool(self.undone) or self.asks)


@dataclass
class QueueLedger:
    """One queue, since it was last empty."""

    name: str
    redeliver: bool
    items: dict[int, Item] = field(default_factory=dict)
    hands: list[Hand] = field(default_factory=list)

    def add(self, life: Life, records: Iterable[Record]) -> None:
        hand = Hand(life.ended is not None)
        for record in records:
            item = self.items.setdefault(record.item, Item()) if record.item else Item()
            if record.what == PUT:
                item.put = record.outcome
            else:
                hand.follow(record, life, item)
        self.hands.append(hand)

    def wrong(self, totals: Totals) -> Iterable[str]:
        yield from self._unput()
        yield from self._redelivered() if self.redeliver else self._doubled()
        yield from self._missing(totals)
        if totals.items or totals.unfinished:
            yield f"emptied, {self.name} says items={totals.items} unfinished={totals.unfinished}"

    def counts(self) -> Counter[str]:
        counts = Counter[str]()
        for item in self.items.values():
            counts["items"] += item.put == OK or bool(item.deliveries)
            counts["deliveries"] += len(item.deliveries)
            counts["again"] += max(0, len(item.deliveries) - 1)
        counts["unanswered gets"] = sum(hand.ended and hand.asks for hand in self.hands)
        return counts

    def _unput(self) -> Iterable[str]:
        for number, item in self.items.items():
            if item.deliveries and item.put in ("", FULL):
                said = "nobody put it" if not item.put else "its put said Full"
                yield f"foreign: {self.told(number)} was delivered, but {said}"

    def _doubled(self) -> Iterable[str]:
        for number, item in self.items.items():
            if len(item.deliveries) > 1:
                yield f"doubled: {self.told(number)}"

    def _redelivered(self) -> Iterable[str]:
        for number, item in self.items.items():
            deliveries = sorted(item.deliveries, key=lambda delivery: delivery.time)
            for one, other in pairwise(deliveries):
                if not one.is_over_by(other.time):
                    why = "after its task_done" if one.done == OK else "while its getter lived"
                    yield f"doubled: {self.told(number)}, again {why}"
            if deliveries and not deliveries[-1].done and deliveries[-1].life.ended is not None:
                yield f"missing: {self.told(number)} died with its getter and did not come back"

    def _missing(self, totals: Totals) -> Iterable[str]:
        missing = [n for n, item in self.items.items() if item.put == OK and not item.deliveries]
        if self.redeliver:
            least = most = explained = 0
        else:
            losses = [hand.losses() for hand in self.hands]
            least = sum(low for low, _ in losses) + len(missing)
            most = sum(high for _, high in losses)
            explained = sum(hand.ended and hand.asks for hand in self.hands)
        if len(missing) > explained:
            yield (
                f"missing: {len(missing)} of {self.name} reached nobody, where {explained} "
                f"getters died unanswered: {', '.join(map(self.told, missing[:5]))}"
            )
        if not least <= totals.lost <= most:
            yield f"{self.name} counts {totals.lost} lost; {least} to {most} were"

    def told(self, number: int) -> str:
        item = self.items[number]
        to = ", ".join(f"{each.life.name} {each.done or 'undone'}" for each in item.deliveries)
        return f"{number:#x} of {self.name} (put {item.put or 'never'}; to {to or 'nobody'})"


@dataclass
class Balance:
    wrong: list[str]
    counts: Counter[str]


def balance(
    lives: Iterable[Life], redeliver: Mapping[str, bool], totals: Mapping[str, Totals]
) -> Balance:
    """Of everything since the queues were last empty."""
    lives = list(lives)
    ledgers = {name: QueueLedger(name, again) for name, again in redeliver.items()}
    found = Balance([], Counter())
    for life in lives:
        mine: dict[str, list[Record]] = {}
        for record in life.records:
            if record.what in (PUT, GET, DONE):
                mine.setdefault(record.where, []).append(record)
            elif record.what == WRONG:
                found.wrong.append(f"{life.name}: {record.detail} ({record.where})")
            if record.outcome not in (INTENT, WRONG):
                found.counts[f"{record.what} {record.outcome}"] += 1
        for name, records in mine.items():
            ledgers[name].add(life, records)
    for name, ledger in ledgers.items():
        found.wrong += ledger.wrong(totals[name])
        found.counts += ledger.counts()
        found.counts["lost"] += totals[name].lost
    found.wrong += used_too_often(lives)
    return found


def used_too_often(lives: Iterable[Life]) -> Iterable[str]:
    """Shares that were good for so many, and were attached by more."""
    uses: dict[str, int] = {}
    attached = Counter[str]()
    for life in lives:
        for record in life.records:
            if record.what == SHARE:
                uses[record.where] = record.item
            elif record.what == ATTACH and record.outcome == OK:
                attached[record.where] += 1
    for share, count in attached.items():
        if 0 < uses.get(share, 0) < count:
            yield f"doubled: the share {share} is for {uses[share]}, and {count} attached it"
