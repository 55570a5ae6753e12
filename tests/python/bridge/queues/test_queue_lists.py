"""What a session tells of the queues of its machine, and hears of those of the peer."""

from __future__ import annotations

from typing import Any

import pytest

from tensorbus._base.errors import ProtocolError
from tensorbus.bridge import _queues
from tensorbus.bridge._budget import PeerBudget
from tensorbus.bridge._queues.lists import QueueLists
from tensorbus.bridge._rules import Direction, Rules
from tensorbus.bridge._wire.frames import Frame, QueueEntry, Queues


class FakeLink:
    """Keeps what is sent."""

    def __init__(self, rules: Rules) -> None:
        self.machine = "robot"
        self.rules = rules
        self.connected = True
        self.budget = PeerBudget(self.machine)
        self.sent: list[Any] = []

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)


class FakeConsumer:
    """Knows the names of the queues that it was told of, by key."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def on_queues(self, added: list[QueueEntry], removed: list[str]) -> None:
        for key in removed:
            del self.names[key]
        self.names.update((entry.key, entry.name) for entry in added)


def entry(number: int, name: str) -> QueueEntry:
    return QueueEntry(str(number), name, 0, 0, False)


def lists(
    rules: Rules, local: list[QueueEntry]
) -> tuple[Any, FakeLink, FakeConsumer, FakeConsumer]:
    link: Any = FakeLink(rules)
    queues, services = FakeConsumer(), FakeConsumer()
    by_key = {one.key: one for one in local}
    return QueueLists(link, by_key, queues, services), link, queues, services


def test_all_is_told_in_parts_and_only_what_the_rules_let_out() -> None:
    rules = Rules(exports=Direction(deny=("secret*",)))
    names = [
        *(f"q{i}" for i in range(600)),
        "secret",
        "service:secrets",
        "service:s",
        "tensorbus/x",
    ]
    told, link, _, _ = lists(rules, [entry(i, name) for i, name in enumerate(names)])
    told.connected()
    assert [frame.whole for frame in link.sent] == [False, False, False, True]
    assert [len(frame.added) for frame in link.sent] == [256, 256, 89, 0]
    assert link.sent[2].added[-1].name == "service:s"
    told.changed([entry(700, "new")], ["1", "2"])
    assert link.sent[4:] == [Queues([entry(700, "new")], [], False), Queues([], ["1", "2"], False)]
    link.connected = False
    told.changed([entry(701, "newer")], [])
    assert len(link.sent) == 6


def test_queues_and_services_go_where_they_belong_and_what_was_not_told_again_is_gone() -> None:
    rules = Rules(imports=Direction(machines={"robot": ("jobs*", "s")}))
    heard, _, queues, services = lists(rules, [])
    heard.connected()
    first = [entry(1, "jobs"), entry(2, "service:s"), entry(3, "other"), entry(4, "jobs2")]
    heard.on_queues(Queues(first, [], False))
    heard.on_queues(Queues([], [], True))
    assert queues.names == {"1": "jobs", "4": "jobs2"}
    assert services.names == {"2": "service:s"}
    heard.on_queues(Queues([entry(5, "jobs5")], ["4", "9"], False))
    assert queues.names == {"1": "jobs", "5": "jobs5"}
    heard.connected()
    heard.on_queues(Queues([entry(5, "jobs5"), entry(6, "jobs6")], [], True))
    assert queues.names == {"5": "jobs5", "6": "jobs6"}
    assert services.names == {}


def test_a_peer_cannot_tell_of_queues_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_queues.lists, "_MAX_QUEUES", 3)
    heard, _, _, _ = lists(Rules(), [])
    heard.on_queues(Queues([entry(i, f"q{i}") for i in range(3)], [], False))
    with pytest.raises(ProtocolError, match="QUEUES"):
        heard.on_queues(Queues([entry(3, "q3")], [], False))
