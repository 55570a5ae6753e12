"""What subscribers of an isolated publisher can read of its process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED, Elsewhere, eventually, hear, joined, tell

WORDS = 512
SECRET = 0x5EC2E75EC2E75EC2  # what nobody is to find
OWN = 0x0B5E12FE0B5E12FE  # what was sent


def mapped_words() -> set[int]:
    """Which of the two are anywhere in the memory of the bus that this process has mapped."""
    found: set[int] = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "tensorbus-segment" not in line:
            continue
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        words = np.frombuffer((ctypes.c_char * (end - begin)).from_address(begin), np.uint64)
        found |= {word for word in (SECRET, OWN) if bool((words == np.uint64(word)).any())}
    return found


def look_at_what_comes(topic: str, samples: int, finds_secret: bool) -> None:
    with tb.Subscriber(topic, timeout=PATIENCE) as subscriber:
        held = [subscriber.receive() for _ in range(samples)]
        assert mapped_words() == ({OWN, SECRET} if finds_secret else {OWN})
        del held


def filled(loan: Any, word: int) -> Any:
    loan[:] = word
    return loan


@pytest.mark.parametrize("isolated", [True, False])
def test_a_subscriber_finds_nothing_but_what_an_isolated_publisher_sent(
    elsewhere: Elsewhere, isolated: bool
) -> None:
    with (
        tb.Publisher("other", history=4) as other,
        tb.Publisher("another", history=4, isolated=True) as another,
        tb.Publisher("topic", isolated=isolated, history=2) as publisher,
    ):
        other.publish(np.full(WORDS, SECRET, np.uint64))
        another.publish(np.full(WORDS, SECRET, np.uint64))
        kept = [filled(p.loan((WORDS,), "uint64"), SECRET) for p in (other, another)]
        kept.append(filled(tb.empty((WORDS,), "uint64"), SECRET))
        publisher.publish(np.full(WORDS, OWN, np.uint64))
        publisher.publish({"ours": filled(other.loan((WORDS,), "uint64"), OWN), "n": [1, 2.5]})
        reader = elsewhere.start(look_at_what_comes, "topic", 4, not isolated)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(filled(publisher.loan((WORDS,), "uint64"), OWN))
        publisher.publish(filled(tb.empty((WORDS,), "uint64"), OWN))
        reader.finish()
        assert all(memory[0] == SECRET for memory in kept)


def look_at_a_share(handle: str) -> None:
    held = tb.attach(handle, timeout=PATIENCE)
    assert mapped_words() == {OWN}
    del held


def look_at_an_item(address: str) -> None:
    held = tb.Queue.open(address).get(timeout=PATIENCE)
    assert mapped_words() == {OWN}
    del held


def test_what_lies_with_an_isolated_publisher_is_copied_by_all_others(
    elsewhere: Elsewhere,
) -> None:
    with (
        tb.Publisher("topic", isolated=True) as publisher,
        tb.Publisher("open", history=1) as other,
        tb.Queue() as queue,
    ):
        secret = filled(publisher.loan((WORDS,), "uint64"), SECRET)
        own = filled(publisher.loan((WORDS,), "uint64"), OWN)
        other.publish(own)
        assert other.stats["bytes_copied"] == own.nbytes
        elsewhere.run(look_at_what_comes, "open", 1, False)
        with tb.share(own) as shared:
            elsewhere.run(look_at_a_share, str(shared.handle))
        queue.put(own)
        elsewhere.run(look_at_an_item, queue.address)
        assert publisher.publish(own) == 0  # it is still a loan of this publisher
        assert publisher.stats["bytes_copied"] == 0
        assert secret[0] == SECRET


@pytest.mark.parametrize("options", [{}, {"reliable": True}, {"shared": True}])
def test_messages_arrive_as_they_were_wherever_their_tensors_lie(
    torch: Any, options: dict[str, Any]
) -> None:
    with (
        joined("source") as (source, taker),
        joined(publisher={"isolated": True, **options}) as (publisher, subscriber),
        tb.Publisher("other", shared=True) as other,
    ):
        source.publish(torch.arange(1000))
        received = taker.receive().data
        standing = tb.empty((3, 4), dtype=torch.float64).fill_(2.5)
        own = publisher.loan((2, 2), dtype=torch.int32).fill_(7)
        of_another = other.loan((5,), dtype="float32")
        of_another[:] = 9
        message = {
            "received": received,
            "views": [received[::2], standing.t(), own[:, 1]],
            "loans": (own, of_another),
            "plain": np.arange(12).reshape(3, 4)[:, ::-1],
            "small": ["text", 1, None],
        }
        assert publisher.publish(message) == 1
        got = subscriber.receive().data
        assert torch.equal(got["received"], received)
        expected = [received[::2], standing.t(), own[:, 1]]
        assert all(torch.equal(*pair) for pair in zip(got["views"], expected, strict=True))
        assert torch.equal(got["loans"][0], own)
        assert np.array_equal(got["loans"][1], of_another)
        assert np.array_equal(got["plain"], message["plain"])
        assert got["small"] == message["small"]
        for tensor in (received, standing, of_another):
            assert publisher.publish(tensor) == 1
            assert np.array_equal(np.asarray(subscriber.receive().data), np.asarray(tensor))


def test_an_isolated_publisher_is_given_what_was_sent_by_itself(elsewhere: Elsewhere) -> None:
    with joined(publisher={"isolated": True, "history": 2}) as (publisher, subscriber):
        publisher.publish(np.full(WORDS, OWN, np.uint64))
        publisher.publish(subscriber.receive().data)
        assert publisher.stats["bytes_copied"] == 2 * 8 * WORDS
        elsewhere.run(look_at_what_comes, "topic", 2, False)


def segments() -> int:
    return tb.participant().arena["segments"]


def test_segments_go_when_the_publisher_is_closed_and_the_last_sample_released() -> None:
    before = segments()
    many = [tb.Publisher(f"topic/{number}", isolated=True) for number in range(50)]
    subscriber = tb.Subscriber("topic/0", timeout=PATIENCE)
    assert many[0].wait_for_subscribers(timeout=PATIENCE)
    for publisher in many:
        publisher.publish(np.full(WORDS, OWN, np.uint64))
    loan = filled(many[1].loan((WORDS,), "uint64"), SECRET)
    held = subscriber.receive()
    assert segments() == before + 50
    for publisher in many:
        publisher.close()
    eventually(lambda: segments() == before + 2)
    assert (held.data == OWN).all()
    assert (loan == SECRET).all()
    del loan
    eventually(lambda: segments() == before + 1)
    del held
    eventually(lambda: segments() == before)
    subscriber.close()


def hold_a_sample_of_a_closed_publisher() -> None:
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        held = subscriber.receive()
        tell("received")
        hear()
        assert (held.data == OWN).all()


def test_a_sample_outlives_its_publisher_in_another_process(elsewhere: Elsewhere) -> None:
    before = segments()
    with tb.Publisher("topic", isolated=True, history=1) as publisher:
        publisher.publish(np.full(WORDS, OWN, np.uint64))
        reader = elsewhere.start(hold_a_sample_of_a_closed_publisher)
        assert reader.hear() == "received"
    with tb.Publisher("nobody/reads", isolated=True) as another:
        another.publish(np.full(WORDS, SECRET, np.uint64))
    assert segments() == before + 1
    reader.tell()
    reader.finish()
    eventually(lambda: segments() == before)


def in_a_child(look: Callable[[], bool]) -> Callable[[], int]:
    """Forks; in the child it is looked when the parent says so. Returns what says it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(writing)
            os.read(reading, 1)
            code = 0 if look() else 1
        finally:
            os._exit(code)
    os.close(reading)

    def go() -> int:
        os.close(writing)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return go


@pytest.mark.skipif(SANITIZED, reason="its allocator cannot be forked beside threads")
def test_what_a_child_inherited_of_an_isolated_publisher_stays_what_it_was() -> None:
    before = segments()
    publisher = tb.Publisher("topic", isolated=True)
    inherited = [filled(publisher.loan((WORDS,), "uint64"), OWN)]
    go = in_a_child(lambda: bool((inherited[0] == OWN).all()))
    inherited.clear()
    publisher.publish(np.full(WORDS, SECRET, np.uint64))
    publisher.close()
    with tb.Publisher("another", isolated=True) as another:
        another.publish(np.full(WORDS, SECRET, np.uint64))
    assert segments() == before + 1
    assert go() == 0
    eventually(lambda: segments() == before)


def test_a_node_makes_isolated_publishers() -> None:
    before = segments()
    with tb.Node("node") as node:
        publishers = [node.create_publisher(f"topic/{n}", isolated=True) for n in range(2)]
        for publisher in publishers:
            publisher.publish(np.zeros(WORDS))
        assert segments() == before + 2
    assert segments() == before
