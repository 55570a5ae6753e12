"""Tensors on a GPU through several processes: a hundred thousand of them, and processes killed."""

from __future__ import annotations

import pytest

import tensorbus as tb
from support.cuda.gpu_tensors import (
    DEVICE,
    REHEARSAL,
    WORDS,
    Words,
    check_patterns,
    delay,
    not_in_rehearsal,
    own_stream,
    publish_patterns,
    synchronize,
    torch,
)
from support.harness import PATIENCE, Elsewhere, hear, tell

MANY = 2_000 if REHEARSAL else 100_000


def pass_on(count: int, slow_ms: float, words: int) -> None:
    """Publishes what it receives, when a kernel of its own has looked at it."""
    with (
        tb.Subscriber("patterns", timeout=PATIENCE) as subscriber,
        tb.Publisher("passed on", reliable=True, depth=4) as publisher,
        own_stream(),
    ):
        checker = Words(words)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(count):
            message = subscriber.receive().data
            delay(slow_ms)
            checker.check(message["words"], message["seed"])
            publisher.publish(message)
            del message
        tell((checker.wrong(), publisher.stats["bytes_copied"]))
        hear()


@pytest.mark.parametrize("slow_ms", [0, 2])
def test_what_is_received_is_published_onwards_without_a_copy(
    elsewhere: Elsewhere, slow_ms: float
) -> None:
    count = 1_000 if not slow_ms else 200
    end = elsewhere.start(check_patterns, count, slow_ms, True, "passed on")
    middle = elsewhere.start(pass_on, count, slow_ms, WORDS)
    begin = elsewhere.start(publish_patterns, count, slow_ms, "loan")
    assert end.hear(120) == (0, True)
    assert middle.hear(120) == (0, 0)
    begin.tell()
    middle.tell()


def publish_small(count: int) -> None:
    with tb.Publisher("patterns", reliable=True, depth=16) as publisher, own_stream():
        words = Words(1024)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for seed in range(count):
            loan = publisher.loan(1024, torch.int32, device=DEVICE)
            publisher.publish({"words": words.fill(loan, seed), "seed": seed})
            del loan
        hear()


def check_small(count: int, topic: str) -> None:
    with tb.Subscriber(topic, timeout=PATIENCE) as subscriber, own_stream():
        words = Words(1024)
        for expected in range(count):
            message = subscriber.receive().data
            assert message["seed"] == expected
            words.check(message["words"], expected)
            del message
        tell(words.wrong())


@not_in_rehearsal
@pytest.mark.alone
@pytest.mark.timeout(300)
def test_the_memory_of_the_gpu_does_not_grow(elsewhere: Elsewhere) -> None:
    """Beside other programs on the GPU this says nothing."""

    def watch(count: int) -> None:
        with tb.Subscriber("patterns", timeout=PATIENCE) as subscriber, own_stream():
            words = Words(1024)
            free = []
            for number in range(count):
                message = subscriber.receive().data
                words.check(message["words"], number)
                del message
                if number % 5_000 == 4_999:
                    torch.cuda.synchronize()
                    free.append(torch.cuda.mem_get_info()[0])
            assert words.wrong() == 0
            tell(free)

    reader = elsewhere.start(watch, 20_000)
    publisher = elsewhere.start(publish_small, 20_000)
    free = reader.hear(240)
    assert free[0] - free[-1] < 16 << 20, free
    publisher.tell()


@pytest.mark.alone
@pytest.mark.timeout(500)
def test_a_hundred_thousand_messages_through_three_processes(elsewhere: Elsewhere) -> None:
    end = elsewhere.start(check_small, MANY, "passed on")
    middle = elsewhere.start(pass_on, MANY, 0, 1024)
    begin = elsewhere.start(publish_small, MANY)
    assert end.hear(450) == 0
    assert middle.hear(60) == (0, 0)
    begin.tell()
    middle.tell()


def publish_late_and_hang(seed: int) -> None:
    """Publishes what its kernel has still to write, and is killed before it does."""
    with tb.Publisher("patterns", history=1) as publisher, own_stream():
        words = Words()
        # So that all that a message needs is made before a kernel runs for long.
        publisher.publish(words.fill(publisher.loan(WORDS, torch.int32, device=DEVICE), seed))
        loan = publisher.loan(WORDS, torch.int32, device=DEVICE)
        hear()
        delay(20_000)
        publisher.publish(words.fill(loan, seed))
        tell("published")
        hear()


@not_in_rehearsal
def test_who_reads_of_a_publisher_that_was_killed_goes_on_and_is_told(
    elsewhere: Elsewhere,
) -> None:
    def receive() -> None:
        with tb.Subscriber("patterns", timeout=PATIENCE) as subscriber, own_stream():
            int(subscriber.receive().data.sum())
            tell("ready")
            sample = subscriber.receive()
            total = sample.data.sum()
            tell("under way")
            int(total)  # it waits no longer than the publisher lives
            tell(sample.intact)

    publisher = elsewhere.start(publish_late_and_hang, 3)
    reader = elsewhere.start(receive)
    assert reader.hear() == "ready"
    publisher.tell()
    assert publisher.hear() == "published"
    assert reader.hear() == "under way"
    publisher.kill()
    assert reader.hear() is False


def test_what_was_written_before_a_publisher_was_killed_stays(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with tb.Publisher("patterns", history=1) as publisher:
            words = Words()
            loan = publisher.loan(WORDS, torch.int32, device=DEVICE)
            publisher.publish(words.fill(loan, 7))
            synchronize()
            tell("written")
            hear()

    def receive() -> None:
        with tb.Subscriber("patterns", timeout=PATIENCE) as subscriber:
            sample = subscriber.receive()
            words = Words()
            words.check(sample.data, 7)
            assert words.wrong() == 0
            tell("seen")
            hear()
            words.check(sample.data, 7)
            assert words.wrong() == 0
            tell(sample.intact)

    publisher = elsewhere.start(publish)
    assert publisher.hear() == "written"
    reader = elsewhere.start(receive)
    assert reader.hear() == "seen"
    publisher.kill()
    reader.tell()
    assert reader.hear() is True


def test_a_killed_reader_gives_everything_back(elsewhere: Elsewhere) -> None:
    def hold() -> None:
        with tb.Subscriber("patterns", timeout=PATIENCE, max_held=8) as subscriber, own_stream():
            held = []
            for _ in range(4):
                held.append(subscriber.receive().data)
                delay(5_000)
                held[-1].sum()
            tell("holds")
            hear()

    def publish() -> None:
        addresses = set()
        with tb.Publisher("patterns", history=4) as publisher:
            words = Words()
            for seed in range(4):
                loan = publisher.loan(WORDS, torch.int32, device=DEVICE)
                publisher.publish(words.fill(loan, seed))
                del loan
            tell("published")
            hear()
            for seed in range(400):
                loan = publisher.loan(WORDS, torch.int32, device=DEVICE)
                addresses.add(loan.data_ptr())
                publisher.publish(words.fill(loan, seed))
                del loan
                synchronize()
            tell(len(addresses))

    publisher = elsewhere.start(publish)
    assert publisher.hear() == "published"
    reader = elsewhere.start(hold)
    assert reader.hear() == "holds"
    reader.kill()
    publisher.tell()
    assert publisher.hear() < 64
