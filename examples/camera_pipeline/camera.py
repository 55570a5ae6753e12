"""The camera: writes each frame into shared memory and publishes it; nothing is copied."""

import sys
import time
from pathlib import Path

import tensorbus as tb
from photographs import Photographs
from plan import DEPTH, FRAME_SHAPE, FRAMES_TOPIC, TIMEOUT, Schedule
from processes import leave
from records import write_stats


def main(results: Path, schedule: Schedule) -> None:
    photographs = Photographs()
    with tb.Publisher(FRAMES_TOPIC, depth=DEPTH, reliable=True, timeout=TIMEOUT) as publisher:
        if not publisher.wait_for_subscribers(timeout=TIMEOUT):
            leave("no model came")
        for index in schedule.indices():
            frame = publisher.loan(FRAME_SHAPE, dtype="uint8")
            photographs.write(index, frame)
            message = {"frame": frame, "index": index, "sent_ns": time.time_ns()}
            if publisher.publish(message) == 0:
                leave("the model has gone")
        write_stats(results / "camera.json", publisher.stats)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Schedule.from_arguments(sys.argv[2:]))
