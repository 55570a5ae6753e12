"""A recorder looks for samples by itself, and is not told of each."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, tell


def test_messages_of_several_topics_are_in_the_order_of_publishing(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    names = [f"topic/{number}" for number in range(5)]
    with (
        ExitStack() as stack,
        tb.Recorder(path, names, reliable=True, depth=256) as recorder,
    ):
        publishers = [
            stack.enter_context(tb.Publisher(name, reliable=True, timeout=PATIENCE))
            for name in names
        ]
        assert all(one.wait_for_subscribers(timeout=PATIENCE) for one in publishers)
        order = [random.randrange(len(names)) for _ in range(400)]
        for number, which in enumerate(order):
            publishers[which].publish({"number": number})
            if number % 50 == 0:  # at most so many wait, which one look takes
                eventually(lambda at=number: recorder.stats.messages > at)
        recorder.close()
    assert [sample.data["number"] for sample in tb.Recording(path)] == [*range(400)]


def _publish_until_killed() -> None:
    with tb.Publisher("topic", depth=64) as publisher:
        tell("there")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(20):
            publisher.publish({"number": number, "data": np.full(5000, number)})
            time.sleep(0.001)  # so that the recorder looks by itself, and is not told
        for number in range(20, 23):
            publisher.publish({"number": number, "data": np.full(5000, number)})
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_waits_with_a_killed_publisher_is_recorded(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    path = tmp_path / "run.mcap"
    with tb.Recorder(path, "topic") as recorder:
        other = elsewhere.start(_publish_until_killed)
        assert other.hear() == "there"
        assert other.end()[0] == -signal.SIGKILL
        recorder.close()
        assert (recorder.stats.messages, recorder.stats.lost) == (23, 0)
    assert [sample.data["data"][0] for sample in tb.Recording(path)] == [*range(23)]
