"""Recordings for the tests of exports: one topic after the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorbus as tb
from support.harness import PATIENCE


def record(
    path: Path, messages: Mapping[str, list[Any]], types: Mapping[str, type[Any]] | None = None
) -> None:
    """Records the messages of each topic, with the type of its publisher if there is one."""
    with tb.Recorder(path, list(messages), reliable=True):
        for topic, values in messages.items():
            message_type: Any = (types or {}).get(topic)
            with tb.Publisher(topic, message_type, reliable=True, depth=8) as publisher:
                assert publisher.wait_for_subscribers(timeout=PATIENCE)
                for value in values:
                    publisher.publish(value)
