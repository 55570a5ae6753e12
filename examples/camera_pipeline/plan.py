"""What both pipelines agree on: sizes, topics, how many frames, and when each is due."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FRAME_SHAPE = (1080, 1920, 3)  # uint8
FEATURES_SHAPE = (1, 64, 17, 30)  # float32
FRAMES_TOPIC = "camera/image"
FEATURES_TOPIC = "model/features"
DEPTH = 2  # messages that wait for a process that is busy
TIMEOUT = 30  # seconds; no process waits longer for another one


@dataclass(frozen=True)
class Schedule:
    """First frames at a steady pace, to measure latency; then as fast as they are taken."""

    paced: int
    full_speed: int
    rate: int  # frames per second of the paced ones

    @property
    def frames(self) -> int:
        return self.paced + self.full_speed

    def indices(self) -> Iterator[int]:
        """The index of each frame, when it is due."""
        start = time.monotonic()
        for index in range(self.frames):
            due = start + min(index, self.paced) / self.rate
            time.sleep(max(0, due - time.monotonic()))
            yield index

    def to_arguments(self) -> list[str]:
        """For the command line of another process."""
        return [str(self.paced), str(self.full_speed), str(self.rate)]

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> "Schedule":
        return cls(*map(int, arguments))


def relaxed_rate(fastest: float) -> int:
    """A pace at which a network that does `fastest` frames per second lets none wait."""
    return max(1, min(10, int(0.3 * fastest)))
