"""What subscribers count as missed when bridges were away, and when they come late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.bridge.bridges import Machine, two_machines
from support.harness import PATIENCE, eventually

BEFORE, LOST = 50, 10


def readers(machine: Machine, topic: str) -> int:
    """How many subscribers its publishers have on a machine: those of the bridge are there, too."""
    participants = tb.inspect(machine.domain, timeout=PATIENCE).participants
    publishers = [one for said in participants for one in said.publishers if one.topic == topic]
    return sum(one.stats.subscribers for one in publishers)


@pytest.mark.parametrize("reliable", [True, False], ids=["reliable", "best effort"])
@pytest.mark.parametrize("where", ["here", "there"])
def test_a_bridge_that_was_away_costs_what_was_lost_and_a_late_subscriber_nothing(
    tmp_path: Path, where: str, reliable: bool
) -> None:
    with (
        two_machines(tmp_path, "--timeout", "1") as (here, there),
        tb.Publisher[Any]("data", reliable=reliable, domain=here.domain) as publisher,
        tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber,
        tb.Recorder(tmp_path / "run.mcap", "data", domain=there.domain) as recorder,
    ):
        number = 0

        def cross() -> None:
            nonlocal number
            publisher.publish(number)
            assert subscriber.receive().data == number
            number += 1

        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        eventually(lambda: readers(there, "data") == 2)
        for _ in range(BEFORE):
            cross()
        assert subscriber.stats.missed == 0
        machine = here if where == "here" else there
        machine.kill()
        eventually(lambda: publisher.stats.subscribers == 0)
        for number in range(BEFORE, BEFORE + LOST):
            publisher.publish(number)
        number += 1
        machine.restart()
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        with tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as late:
            assert late.wait_for_publishers(timeout=PATIENCE)
            eventually(lambda: readers(there, "data") == 3)
            cross()
            cross()
            assert late.receive().data >= BEFORE + LOST
            assert late.stats.missed == 0
        assert subscriber.stats.missed == LOST
        eventually(lambda: recorder.stats.messages + recorder.stats.lost == number)
        assert recorder.stats.lost == LOST


def test_a_subscriber_misses_nothing_of_what_came_before_it(tmp_path: Path) -> None:
    with (
        two_machines(tmp_path) as (here, there),
        tb.Publisher[Any]("data", domain=here.domain) as publisher,
    ):
        for number in range(BEFORE):
            publisher.publish(number)
        with tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(BEFORE)
            assert subscriber.receive().data == BEFORE
            assert subscriber.stats.missed == 0
