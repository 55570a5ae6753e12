"""A stream of large frames between machines: the camera, or who receives it.

    stream.py camera|receiver ADDRESS SIZE COUNT RATE

The camera's machine has a bridge that listens on ADDRESS, that of a receiver connects to it. RATE
is frames a second, 0 for as fast as they are taken; with a rate nobody is waited for. The camera
says "ready", begins when there are as many subscribers as a line of its input says, and ends with
the next line. A receiver says in JSON what came.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from echo import PATIENCE, PORT, bridge

import tensorbus as tb


def camera(size: int, count: int, rate: float) -> None:
    with tb.Publisher[np.ndarray]("frames", depth=4, reliable=not rate) as publisher:
        print("ready", flush=True)
        assert publisher.wait_for_subscribers(int(sys.stdin.readline()), timeout=PATIENCE)
        begin = time.monotonic()
        for number in range(count):
            if rate:
                time.sleep(max(0.0, begin + number / rate - time.monotonic()))
            frame = publisher.loan((size,), dtype="uint8")
            frame[:: 1 << 12] = number % 256
            publisher.publish(frame)


def receive() -> dict[str, float]:
    received, first, last, missed = 0, 0.0, 0.0, 0
    with tb.Subscriber[np.ndarray]("frames", depth=8, end_of_stream=True) as subscriber:
        for _ in subscriber:
            last = time.monotonic()
            first = first or last
            received += 1
        missed = subscriber.stats["missed"]
    return {"received": received, "missed": missed, "seconds": last - first}


def main() -> None:
    role, address, size, count, rate = sys.argv[1:]
    option = "--listen" if role == "camera" else "--connect"
    with bridge(option, f"{address}:{PORT}"):
        if role == "camera":
            camera(int(size), int(count), float(rate))
            sys.stdin.readline()  # the bridge has still to tell the end
        else:
            print(json.dumps(receive()))


if __name__ == "__main__":
    main()
