"""What was attached goes on to third processes by reference, whoever of the three dies."""

from __future__ import annotations

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from test_share import ask, attach_until_told, pattern, seed_of, share_until_told, used


def share_on_until_told(text: str) -> None:
    """Attaches, shares what it has attached, and tells the handle."""
    held = tb.attach(text, timeout=PATIENCE)
    shared = tb.share(held)
    tell(str(shared.handle))
    while (order := hear()) != "exit":
        if order == "let go":
            held = None
        tell(used())


def publish_on_until_told(text: str) -> None:
    """Attaches, and publishes what it has attached as often as it hears so."""
    held = tb.attach(text, timeout=PATIENCE)
    with tb.Publisher("onward") as publisher:
        tell("attached")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        while hear() == "publish":
            publisher.publish({"words": held})
            tell((publisher.stats["bytes_copied"], used()))


def test_a_third_process_attaches_what_the_second_shares_on(elsewhere: Elsewhere) -> None:
    owner = elsewhere.start(share_until_told, 1, {})
    middle = elsewhere.start(share_on_until_told, owner.hear())
    text = middle.hear()
    held = tb.attach(text, timeout=PATIENCE)
    third = elsewhere.start(attach_until_told, text)
    assert (seed_of(held), third.hear()) == (1, 1)
    assert ask(middle, "let go") < 4096, "its descriptor alone"
    assert used() == 0
    middle.tell("exit")
    middle.finish()
    ask(owner, "close")
    assert (seed_of(held), ask(third, "look")) == (1, 1)
    assert ask(owner, "used") > 0
    del held
    third.kill()
    eventually(lambda: ask(owner, "used") == 0)


def test_it_comes_home_by_way_of_another(elsewhere: Elsewhere) -> None:
    with tb.share(pattern(2)) as shared:
        middle = elsewhere.start(share_on_until_told, str(shared.handle))
        text = middle.hear()
    back = tb.attach(text, timeout=PATIENCE)
    middle.kill()
    assert seed_of(back) == 2
    del back
    eventually(lambda: used() == 0)


def test_what_was_attached_is_published_on_without_a_copy(elsewhere: Elsewhere) -> None:
    owner = elsewhere.start(share_until_told, 3, {})
    middle = elsewhere.start(publish_on_until_told, owner.hear())
    assert middle.hear() == "attached"
    with tb.Subscriber("onward", timeout=PATIENCE) as subscriber:
        samples = []
        for _ in range(3):
            copied, _ = ask(middle, "publish")
            assert copied == 0
            samples.append(subscriber.receive())
        assert [seed_of(sample.data["words"]) for sample in samples] == [3, 3, 3]
        assert subscriber.stats["bad"] == 0
        ask(owner, "close")
        middle.kill()
        eventually(lambda: subscriber.stats["publishers"] == 0)
        assert [seed_of(sample.data["words"]) for sample in samples] == [3, 3, 3]
        assert ask(owner, "used") > 0
        samples.clear()
        eventually(lambda: ask(owner, "used") == 0)


@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_dead_owners_memory_is_published_on(elsewhere: Elsewhere, killed: str) -> None:
    owner = elsewhere.start(share_until_told, 4, {})
    middle = elsewhere.start(publish_on_until_told, owner.hear())
    assert middle.hear() == "attached"
    with tb.Subscriber("onward", timeout=PATIENCE) as subscriber:
        if killed == "before":
            owner.kill()
        assert ask(middle, "publish")[0] == 0
        words = subscriber.receive().data["words"]
        if killed == "after":
            owner.kill()
        assert seed_of(words) == 4
        assert ask(middle, "publish")[0] == 0
        assert seed_of(subscriber.receive().data["words"]) == 4
    middle.kill()
    assert seed_of(words) == 4


@pytest.mark.parametrize("first", ["owner", "middle"])
def test_a_third_process_keeps_what_it_holds_when_both_are_dead(
    elsewhere: Elsewhere, first: str
) -> None:
    owner = elsewhere.start(share_until_told, 5, {})
    middle = elsewhere.start(share_on_until_told, owner.hear())
    text = middle.hear()
    held = tb.attach(text, timeout=PATIENCE)
    for dies in (owner, middle) if first == "owner" else (middle, owner):
        dies.kill()
        assert seed_of(held) == 5
    with pytest.raises(tb.Closed):
        tb.attach(text, timeout=PATIENCE)
    with tb.share(held) as shared:
        assert used() < 4096, "what the dead have left is handed on as it is"
        third = elsewhere.start(attach_until_told, str(shared.handle))
        assert third.hear() == 5
    third.tell("exit")


def test_what_was_received_is_shared_and_shared_on(elsewhere: Elsewhere) -> None:
    def publish_once() -> None:
        with tb.Publisher("topic") as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(pattern(6))
            tell("published")
            hear()

    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        other = elsewhere.start(publish_once)
        received = subscriber.receive().data
        assert other.hear() == "published"
        with tb.share({"words": received, "own": np.arange(3)}) as shared:
            assert used() < 4096
            found = tb.attach(shared.handle, timeout=PATIENCE)
        assert seed_of(found["words"]) == 6
        assert found["own"].tolist() == [0, 1, 2]
        other.tell("exit")
