"""What both ends of a queue between machines say to a peer that writes nonsense."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.queues.queue_world import FakeHome, FakeMirror, Getter, Pipe, Sample
from tensorbus._base.errors import ProtocolError
from tensorbus.bridge._queues.export import QueueExport
from tensorbus.bridge._queues.mirror import QueueMirror


def export(*, redeliver: bool) -> QueueExport:
    """Of a queue of which one item was sent, and another is in a hand there."""
    home = FakeHome(redeliver, 0, [0, 1])
    made = QueueExport(home, Pipe(), "jobs", redeliver=redeliver)
    made.on_demand(2, 0)
    for _ in range(2):
        _, get, item = home.answers.popleft()
        made.on_item(get, Sample(item), b"", item)
    made.on_taken(1)
    return made


def mirror() -> QueueMirror:
    """Of a queue to which a put is under way, and from which an item has come."""
    local = FakeMirror(False, [Getter(1)])
    made = QueueMirror(local, Pipe())
    local.request("put", Sample(0), True)
    made.on_item(1)
    local.offer(1)
    made.offered(1)
    made.look()
    return made


@pytest.mark.parametrize("redeliver", [False, True])
@pytest.mark.parametrize(
    "say",
    [
        lambda told: told.on_demand(1, 3),
        lambda told: (told.on_demand(1, 2), told.on_demand(1, 1)),
        lambda told: told.on_taken(1),
        lambda told: told.on_taken(3),
        lambda told: told.on_refused(1),
        lambda told: told.on_spoilt(0),
        lambda told: told.on_done(2),
        lambda told: (told.on_done(1), told.on_done(1)),
        lambda told: told.on_died(2),
        lambda told: told.on_passed(2),
        lambda told: (told.on_put(1, Sample(2), waits=True), told.on_call(1, "join", 0)),
        lambda told: told.on_call(1, "open", 0),
        lambda told: told.on_call(1, "state", 1),
        lambda told: told.on_call(1, "shutdown", 2),
    ],
)
def test_a_program_elsewhere_that_cannot_have_done_that(
    say: Callable[[QueueExport], object], redeliver: bool
) -> None:
    with pytest.raises(ProtocolError):
        say(export(redeliver=redeliver))


@pytest.mark.parametrize(
    "say",
    [
        lambda told: told.on_item(1),
        lambda told: told.on_item(3),
        lambda told: told.on_answer(2, 0, (0, 0, 0, 0)),
        lambda told: told.on_answer(1, 3, (0, 0, 0, 0)),
        lambda told: (told.on_denied(1, 0, ""), told.on_denied(1, 0, "")),
        lambda told: told.on_denied(1, 99, ""),
        lambda told: told.on_denied(1, -1, ""),
    ],
)
def test_a_home_that_cannot_have_said_that(say: Callable[[QueueMirror], object]) -> None:
    with pytest.raises(ProtocolError):
        say(mirror())
