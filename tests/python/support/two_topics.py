"""A recording of poses and images, whose publishers both end with as many messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorbus as tb
from support.harness import PATIENCE


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
