"""Times a round trip to the service by handle against one that pickles the tensor over TCP.

python client.py [ROUNDS [HEIGHT WIDTH]]     # starts both services itself
"""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import pickles
import tensorbus as tb


def by_handle(connection: http.client.HTTPConnection, image: Any) -> Any:
    with tb.share(image, ttl=60) as shared:
        connection.request("POST", "/", json.dumps(shared.handle.to_dict()))
        answer = connection.getresponse()
        fields = json.loads(answer.read())
    if answer.status != 200:
        raise RuntimeError(fields["error"])
    return tb.attach(fields, library="numpy", timeout=10)


def by_pickle(connection: socket.socket, image: Any) -> Any:
    pickles.send(connection, image)
    return pickles.receive(connection)


@contextmanager
def running(script: str) -> Iterator[int]:
    """A service that prints its port first."""
    program = [sys.executable, Path(__file__).with_name(script)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout
        yield int(service.stdout.readline())
        service.terminate()


def median_ms(rounds: int, round_trip: Callable[[Any], Any], image: Any) -> float:
    times = []
    for _ in range(5 + rounds):  # the first warm up
        begin = time.perf_counter()
        result = round_trip(image)
        times.append(time.perf_counter() - begin)
        assert np.array_equal(result[0], image[0] * 2)
    return statistics.median(times[-rounds:]) * 1000


def main(rounds: int = 50, height: int = 1920, width: int = 1080) -> None:
    image = tb.empty((height, width, 3), "float32")
    image[:] = np.random.default_rng(1).random(image.shape, "float32")
    with running("service.py") as port:
        with_service = http.client.HTTPConnection("127.0.0.1", port)
        handles = median_ms(rounds, lambda each: by_handle(with_service, each), image)
    with running("pickles.py") as port:
        to_pickles = pickles.connected(socket.create_connection(("127.0.0.1", port)))
        pickled = median_ms(rounds, lambda each: by_pickle(to_pickles, each), np.array(image))
    print(f"{image.shape} float32, {image.nbytes / 2**20:.1f} MiB, median of {rounds} round trips")
    print(f"by handle, over HTTP: {handles:.2f} ms")
    print(f"by pickle, over TCP:  {pickled:.2f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
