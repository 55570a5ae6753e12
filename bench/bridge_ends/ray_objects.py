"""One end of Ray, for python_bridge: objects from the store of one node to that of another.

    ray_objects.py receive|send ADDRESS SIZE COUNT OWN_ADDRESS

The receiver is the head of a cluster, the sender a node that joins it. `ray.put` copies a message
into the sender's store, an actor on the receiver gets it in its own. The processor time is that of
all processes of the machine, since Ray has some of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import ray

PORT = 6379
STORE = 1 << 30  # bytes
UNDER_WAY = 4  # messages
TICKS = os.sysconf("SC_CLK_TCK")


def processor_time() -> float:
    """Seconds of all processes of this machine, and of those that have ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS


@contextmanager
def node(*options: str) -> Iterator[None]:
    """A node of the cluster on this machine, whose processes end with the block."""
    command = str(Path(sys.executable).with_name("ray"))
    store = f"--object-store-memory={STORE}"
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": folder}

        def run(*arguments: str) -> None:
            quiet = {"stdout": subprocess.DEVNULL, "env": environment}
            subprocess.run([command, *arguments], check=True, **quiet)

        run("start", store, "--num-cpus=1", *options)
        try:
            yield
        finally:
            run("stop", "--force")


def receiver_class() -> Any:
    """Defined in a function, so that Ray sends it by value: its workers do not know this module."""

    class Receiver:
        def __init__(self) -> None:
            import threading

            self.up, self.begun, self.over = (threading.Event() for _ in range(3))

        def take(self, message: Any) -> int:
            return len(message)

        def mark(self, event: str) -> None:
            getattr(self, event).set()

        def wait_for(self, event: str) -> None:
            getattr(self, event).wait(60)

    return Receiver


def say(begin: float, used: float) -> None:
    seconds = {"seconds": time.perf_counter() - begin, "processor": processor_time() - used}
    print(json.dumps(seconds), flush=True)


def connect(address: str, own: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    ray.init(address=f"{address}:{PORT}", namespace="bench", _node_ip_address=own, **quiet)


def receive(address: str) -> None:
    head = ("--head", f"--port={PORT}", "--include-dashboard=false", '--resources={"here":1}')
    with node(*head, f"--node-ip-address={address}"):
        connect(address, address)
        options = {
            "name": "receiver",
            "resources": {"here": 1},
            "max_concurrency": 3,
            "lifetime": "detached",
        }
        receiver = ray.remote(receiver_class()).options(**options).remote()
        ray.get(receiver.mark.remote("up"))
        print("ready", flush=True)
        ray.get(receiver.wait_for.remote("begun"))
        begin, used = time.perf_counter(), processor_time()
        ray.get(receiver.wait_for.remote("over"))
        say(begin, used)


def send(address: str, size: int, count: int, own: str) -> None:
    with node(f"--address={address}:{PORT}", f"--node-ip-address={own}"):
        connect(address, own)
        receiver = ray.get_actor("receiver")
        message = np.zeros(size, np.uint8)
        ray.get(receiver.take.remote(ray.put(message)))
        ray.get(receiver.mark.remote("begun"))
        begin, used = time.perf_counter(), processor_time()
        pending: deque[Any] = deque()
        for _ in range(count):
            pending.append(receiver.take.remote(ray.put(message)))
            if len(pending) > UNDER_WAY:
                assert ray.get(pending.popleft()) == size
        ray.get(list(pending))
        say(begin, used)
        with suppress(ray.exceptions.RayError):  # the receiver ends when it hears of it
            ray.get(receiver.mark.remote("over"))


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[2])
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
