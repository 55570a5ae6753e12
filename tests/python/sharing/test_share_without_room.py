"""What a process shares that has no descriptor for another connection."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell
from support.shortage import Refusals, limit_descriptors, no_descriptor_left

MOST = 128


def share_without_room() -> None:
    refusals = Refusals()
    limit_descriptors(MOST)
    shared = tb.share(np.arange(1000))
    with no_descriptor_left():
        tell(str(shared.handle))
        assert refusals.heard.wait(PATIENCE)
        tell("refused")
        hear()
    tell("room")
    hear()


def test_attach_names_the_limit_of_the_process_that_shares_and_is_no_end(
    elsewhere: Elsewhere,
) -> None:
    other = elsewhere.start(share_without_room)
    handle = other.hear()
    with pytest.raises(tb.OutOfMemory, match=f"RLIMIT_NOFILE is {MOST}"):
        tb.attach(handle, timeout=1)
    assert other.hear() == "refused"
    other.tell()
    assert other.hear() == "room"
    assert tb.attach(handle, timeout=PATIENCE).sum() == 499500
    other.tell()


def test_attach_that_waits_is_done_when_there_is_room(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(share_without_room)
    handle = other.hear()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(tb.attach(handle, timeout=PATIENCE)))
    thread.start()
    assert other.hear() == "refused"
    other.tell()
    assert other.hear() == "room"
    thread.join(PATIENCE)
    assert found[0].sum() == 499500
    other.tell()
