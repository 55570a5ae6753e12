"""Topic to topic through a bridge on each machine: the publisher, or the subscriber.

    topic.py send|receive ADDRESS SIZE COUNT zenoh|OPTION...

It starts the bridge of its machine with these options; ADDRESS is where that of the receiver
listens, or its router of Zenoh. The processor time is that of this process and of its bridge.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tensorbus as tb

PATIENCE = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


def processor_time(bridge: subprocess.Popen[bytes]) -> float:
    """Seconds of this process and of the bridge."""
    fields = Path(f"/proc/{bridge.pid}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / TICKS


def send(size: int, count: int, bridge: subprocess.Popen[bytes]) -> dict[str, float]:
    with tb.Publisher[np.ndarray]("bench", depth=4, reliable=True) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        before = processor_time(bridge)
        for i in range(count):
            frame = publisher.loan((size,), dtype="uint8")
            frame[:: 1 << 12] = i % 256
            publisher.publish(frame)
        used = 0.0
        deadline = time.monotonic() + PATIENCE
        while publisher.stats["bytes_in_flight"] and time.monotonic() < deadline:
            time.sleep(0.001)
        used = processor_time(bridge) - before
    return {"processor": used}


def receive(size: int, count: int, bridge: subprocess.Popen[bytes]) -> dict[str, float]:
    with tb.Subscriber[np.ndarray]("bench", timeout=PATIENCE) as subscriber:
        print("ready", flush=True)
        first = subscriber.receive()
        begin, before = time.monotonic(), processor_time(bridge)
        assert first.data.size == size
        for _ in range(1, count):
            subscriber.receive()
        seconds = time.monotonic() - begin
        assert subscriber.stats["missed"] == 0
        used = processor_time(bridge) - before
    # From the end of the first sample to that of the last one.
    return {"seconds": seconds * count / (count - 1), "processor": used * count / (count - 1)}


def main() -> None:
    end, address, size, count, *options = sys.argv[1:]
    way = "connect" if end == "send" else "listen"
    if options == ["zenoh"]:
        config = {
            "mode": "client" if end == "send" else "router",
            way: {"endpoints": [f"tcp/{address}:7447"]},
            "scouting": {"multicast": {"enabled": False}},
        }
        path = Path(tempfile.mkdtemp()) / "zenoh.json5"
        path.write_text(json.dumps(config))
        options = ["--zenoh", str(path)]
    else:
        options = [f"--{way}", f"{address}:7447", *options]
    with subprocess.Popen(
        [sys.executable, "-m", "tensorbus", "bridge", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as bridge:
        figures = (send if end == "send" else receive)(int(size), int(count), bridge)
        bridge.terminate()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
