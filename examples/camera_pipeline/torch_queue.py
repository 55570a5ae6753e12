"""The same pipeline over torch.multiprocessing queues; here the sink has to be Python, too.

Used as its documentation shows: a tensor that is put into a queue is copied into shared memory,
unless it is there already, and the receiver maps that memory. Processes stay until all their
tensors were received, because receivers fetch the descriptors from them.
"""

import queue
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from network import Network
from photographs import Photographs
from plan import DEPTH, FEATURES_SHAPE, FRAME_SHAPE, TIMEOUT, Schedule
from records import Arrivals, write_stats


class Outlet:
    """One end of a queue, and how many bytes went in that had to be copied."""

    def __init__(self, into: Any) -> None:
        self._into = into
        self.bytes_copied = 0

    def put(self, index: int, tensor: torch.Tensor) -> None:
        self.bytes_copied += 0 if tensor.is_shared() else tensor.nbytes
        self._into.put((index, time.time_ns(), tensor), timeout=TIMEOUT)


def camera(results: Path, schedule: Schedule, frames: Any, ready: Any, done: Any) -> None:
    photographs = Photographs()
    outlet = Outlet(frames)
    if not ready.wait(TIMEOUT):
        sys.exit("no model came")
    for index in schedule.indices():
        frame = torch.empty(FRAME_SHAPE, dtype=torch.uint8)
        photographs.write(index, frame.numpy())
        outlet.put(index, frame)
    write_stats(results / "camera.json", {"bytes_copied": outlet.bytes_copied})
    done.wait(2 * TIMEOUT)


def model(results: Path, count: int, frames: Any, features: Any, ready: Any, done: Any) -> None:
    network = Network()
    network.warm_up()
    arrivals = Arrivals(results / "model.txt")
    outlet = Outlet(features)
    ready.set()
    for _ in range(count):
        index, sent_ns, frame = frames.get(timeout=TIMEOUT)
        arrivals.add(index, sent_ns, time.time_ns())
        result = torch.empty(FEATURES_SHAPE)
        network.run(frame, out=result)
        outlet.put(index, result)
    write_stats(results / "model.json", {"bytes_copied": outlet.bytes_copied})
    done.wait(2 * TIMEOUT)


def sink(results: Path, count: int, features: Any, others: list[Any]) -> None:
    arrivals = Arrivals(results / "sink.txt")
    with (results / "features.bin").open("wb") as file:
        for _ in range(count):
            index, sent_ns, tensor = get(features, others)
            arrivals.add(index, sent_ns, time.time_ns())
            file.write(tensor.numpy())


def get(source: Any, others: list[Any]) -> Any:
    """The next item; a queue does not tell that the process at its other end has died."""
    deadline = time.monotonic() + 2 * TIMEOUT
    while time.monotonic() < deadline:
        try:
            return source.get(timeout=0.5)
        except queue.Empty:
            for other in others:
                if other.exitcode is not None:
                    sys.exit(f"its {other.name} has ended with {other.exitcode}")
    sys.exit("no features came in time")


def main(results: Path, schedule: Schedule) -> None:
    torch.set_num_threads(1)
    spawn = mp.get_context("spawn")
    frames, features = spawn.Queue(DEPTH), spawn.Queue(DEPTH)
    ready, done = spawn.Event(), spawn.Event()
    calls = [
        (camera, (results, schedule, frames, ready, done)),
        (model, (results, schedule.frames, frames, features, ready, done)),
    ]
    others = [
        spawn.Process(target=call, args=args, name=call.__name__, daemon=True)
        for call, args in calls
    ]
    for other in others:
        other.start()
    sink(results, schedule.frames, features, others)
    done.set()
    for other in others:
        other.join(TIMEOUT)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Schedule.from_arguments(sys.argv[2:]))
