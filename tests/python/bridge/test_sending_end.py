"""What a sending end counts."""

from __future__ import annotations

from typing import Any

import pytest

from support.cut_lanes import FakeLane
from tensorbus.bridge._streams.message import OutgoingMessage
from tensorbus.bridge._streams.sending_end import SendingEnd
from tensorbus.bridge._streams.stream import Limits
from tensorbus.bridge._wire.lane import BULK, EXPRESS

LIMITS = Limits(0, 0, 64, 1 << 30)


class FakeSample:
    """Of one tensor."""

    timestamp_ns = 0
    fingerprint = 0

    def __init__(self, size: int) -> None:
        self._size = size

    def ranges(self) -> tuple[list[memoryview], int, list[Any]]:
        tensor = ("uint8", [self._size], [1], 0, 0)
        return [memoryview(bytes(self._size))], self._size, [tensor]


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_what_is_sent_again_on_a_new_connection_counts_once(size: int) -> None:
    lanes: list[Any] = [FakeLane(EXPRESS), FakeLane(BULK)]
    for lane in lanes:
        lane.reads_zstd = False

    def write(frames: int) -> None:
        for _ in range(frames):
            for lane in lanes:
                end.write_to(lane)

    end = SendingEnd(1, LIMITS, 0, lambda _: None, lambda: None)
    for number in range(3):
        core: Any = FakeSample(size)
        end.take(number, OutgoingMessage(b"", core))
    write(3)
    end.lose_connection()
    end.resume(LIMITS)
    write(30)
    assert (end.written, end.written_bytes) == (3, 3 * size)


def test_a_message_that_was_cut_is_not_sent() -> None:
    lane: Any = FakeLane(BULK)
    lane.reads_zstd = False
    end = SendingEnd(1, LIMITS, 0, lambda _: None, lambda: None)
    core: Any = FakeSample(3_000_000)
    end.take(0, OutgoingMessage(b"", core))
    end.lane = BULK
    for _ in range(2):  # BEGIN, and the first of three chunks
        end.write_to(lane)
    end.lose_connection()
    assert (end.written, end.written_bytes) == (0, 0)
