"""What happens with other processes goes to the logger "tensorbus.core", with topic and pid."""

from __future__ import annotations

import logging
import os
import re
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.message_examples import Detection, Pose


def keep_lines() -> Callable[[str], list[str]]:
    """Lines of the core from now on: the texts of one level."""
    found: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    logger = logging.getLogger("tensorbus.core")
    logger.addHandler(Keep())
    logger.setLevel(logging.INFO)
    logger.propagate = False

    def lines(level: str) -> list[str]:
        return [record.getMessage() for record in found if record.levelname == level]

    return lines


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    logger = logging.getLogger("tensorbus.core")
    for name in ("handlers", "level", "propagate"):
        monkeypatch.setattr(logger, name, getattr(logger, name))
    monkeypatch.setattr(logger, "handlers", [])
    return keep_lines()


def expect_another_type(owner: int) -> None:
    lines = keep_lines()
    with tb.Subscriber("topic", Pose, timeout=PATIENCE) as subscriber:
        try:
            subscriber.receive()
        except tb.TypeMismatch:
            eventually(lambda: lines("INFO"))
    (line,) = lines("INFO")
    assert line.startswith(f'topic "topic", process {owner}: its publisher refused'), line


def test_types_that_do_not_match_are_logged_by_both(
    elsewhere: Elsewhere, lines: Callable[[str], list[str]]
) -> None:
    with tb.Publisher("topic", Detection):
        other = elsewhere.start(expect_another_type, os.getpid())
        other.finish()
        eventually(lambda: lines("WARNING"))
    (line,) = lines("WARNING")
    assert line.startswith(f'topic "topic", process {other.pid}: refused its subscriber: '), line


def subscribe_and_wait(reliable: bool, max_held: int) -> None:
    with tb.Subscriber("topic", reliable=reliable, max_held=max_held, timeout=PATIENCE) as reader:
        tell("ready")
        held = [reader.receive() for _ in range(hear())]
        tell(len(held))
        hear()


def test_drops_are_logged_once_with_their_number(
    elsewhere: Elsewhere, lines: Callable[[str], list[str]]
) -> None:
    with tb.Publisher("topic", depth=2) as publisher:
        reader = elsewhere.start(subscribe_and_wait, False, 4)
        assert reader.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(12):
            publisher.publish(number)
        eventually(lambda: lines("INFO"))
        assert publisher.stats["dropped_depth"] == 10
        reader.tell(0)
        assert reader.hear() == 0
        reader.tell()
        reader.finish()
    assert lines("INFO") == [
        f'topic "topic", process {reader.pid}: dropped 10 samples for its subscriber; '
        "10 because its queue is full (depth=2)"
    ]
    assert not lines("WARNING")


def test_drops_for_a_subscriber_that_holds_too_much_are_a_warning(
    elsewhere: Elsewhere, lines: Callable[[str], list[str]]
) -> None:
    import numpy as np

    with tb.Publisher("topic", depth=1) as publisher:
        reader = elsewhere.start(subscribe_and_wait, False, 1)
        assert reader.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.zeros(4096))
        reader.tell(1)
        assert reader.hear() == 1
        for _ in range(5):
            publisher.publish(np.zeros(4096))
        eventually(lambda: lines("WARNING") or lines("INFO"))
        stats = publisher.stats
        reader.tell()
        reader.finish()
    (line,) = lines("WARNING") + lines("INFO")
    counts = [int(number) for number in re.findall(r"[; ](\d+) (?:samples|from|because)", line)]
    assert counts[0] == sum(counts[1:]) == stats["dropped_depth"] + stats["dropped_held"]
    assert f"process {reader.pid}: " in line


def read_until_the_end(owner: int) -> None:
    lines = keep_lines()
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        tell("ready")
        for sample in subscriber:
            tell(sample.data)
            if sample.data == "last":
                break
        eventually(lambda: lines("WARNING"))
    (line,) = lines("WARNING")
    assert line.startswith(f'topic "topic", process {owner}: its publisher cut the subscriber off')


def test_a_cut_off_is_logged_by_both(
    elsewhere: Elsewhere, lines: Callable[[str], list[str]]
) -> None:
    with tb.Publisher("topic", depth=2, reliable=True, lag_timeout=0.1) as publisher:
        reader = elsewhere.start(read_until_the_end, os.getpid())
        assert reader.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(0)
        assert reader.hear() == 0
        reader.stop()
        try:
            for number in range(1, 6):
                publisher.publish(number, timeout=PATIENCE)
            eventually(lambda: lines("WARNING"))
        finally:
            reader.signal(signal.SIGCONT)
        (line,) = lines("WARNING")
        assert line.startswith(f'topic "topic", process {reader.pid}: cut its subscriber off')
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish("last")
        assert reader.hear() == "last"
        reader.finish()


def send_nonsense(folder: str, name: str) -> None:
    import socket

    opened = os.open(folder, os.O_PATH)  # a socket's path may have 107 bytes
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.connect(f"/proc/self/fd/{opened}/{name}")
        peer.send(b"no message of ours\x1b[31m")
        while peer.recv(4096):
            pass


def test_a_connection_that_is_given_up_is_logged_as_an_error(
    elsewhere: Elsewhere, lines: Callable[[str], list[str]]
) -> None:
    folder = Path(tb.participant().domain)
    (path,) = (each for each in folder.iterdir() if stat.S_ISSOCK(each.stat().st_mode))
    other = elsewhere.start(send_nonsense, str(folder), path.name)
    other.finish()
    eventually(lambda: lines("ERROR"))
    assert lines("ERROR") == [
        f"process {other.pid}: ended the connection from it: "
        "control message: wrong magic, this is not Tensorbus"
    ]
