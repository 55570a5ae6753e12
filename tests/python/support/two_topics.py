"""Several topics of a test: recorded together, or combined by their times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import tensorbus as tb
from support.harness import PATIENCE

Publishers = list[tb.Publisher[Any]]


@contextmanager
def two_topics(
    path: Path, count: int, **options: Any
) -> Iterator[tuple[tb.Publisher[Any], tb.Publisher[Any]]]:
    """Publishers of "pose" and "image", of each of which `count` messages are recorded."""
    with (
        tb.Publisher("pose", reliable=True, timeout=PATIENCE) as pose,
        tb.Publisher("image", reliable=True, timeout=PATIENCE) as image,
        tb.Recorder(path, ["pose", "image"], reliable=True, **options) as recorder,
    ):
        assert pose.wait_for_subscribers(timeout=PATIENCE)
        assert image.wait_for_subscribers(timeout=PATIENCE)
        yield pose, image
        recorder.close()
        assert (recorder.stats.messages, recorder.stats.lost) == (2 * count, 0)


@contextmanager
def synchronized(
    count: int = 2,
    *,
    tolerance: float = 0,
    time: Any = "stamp",
    publisher: dict[str, Any] | None = None,
    subscriber: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[tuple[Publishers, tb.TimeSynchronizer]]:
    """Publishers of some topics, and a synchronizer that is connected to all."""
    with ExitStack() as stack:
        topics = [f"topic/{number}" for number in range(count)]
        senders = [
            stack.enter_context(tb.Publisher(topic, **{"depth": 64, **(publisher or {})}))
            for topic in topics
        ]
        subscribers = [tb.Subscriber(topic, **(subscriber or {})) for topic in topics]
        pairs = stack.enter_context(
            tb.TimeSynchronizer(subscribers, tolerance=tolerance, time=time, **options)
        )
        for sender, receiver in zip(senders, subscribers, strict=True):
            assert sender.wait_for_subscribers(timeout=PATIENCE)
            assert receiver.wait_for_publishers(timeout=PATIENCE)
        yield senders, pairs


def publish_stamps(publisher: tb.Publisher[Any], *stamps: float) -> None:
    """A dict with each stamp."""
    for stamp in stamps:
        publisher.publish({"stamp": stamp})


def stamps_of(samples: Sequence[tb.Sample[Any]] | None) -> list[float]:
    assert samples is not None
    return [sample.data["stamp"] for sample in samples]
