"""How long a bridge that is killed and started again is away, for a subscriber behind it.

It says in JSON the seconds of each of COUNT kills, of the side that listens and of the other one.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests/python"))

import tensorbus as tb
from support.bridge.bridges import Machine, two_machines

PATIENCE = 60.0


def away(
    bridge: Machine, publisher: tb.Publisher[float], subscriber: tb.Subscriber[float]
) -> float:
    """Until the first sample that was published after the kill."""
    bridge.kill()
    begin = time.monotonic()
    bridge.restart()
    while True:
        publisher.publish(time.monotonic())
        sample = subscriber.try_receive()
        if sample is not None and sample.data > begin + 0.02:  # what was in a socket came before
            return time.monotonic() - begin
        time.sleep(0.005)


def main() -> None:
    folder = tempfile.mkdtemp()
    with (
        two_machines(Path(folder)) as (here, there),
        tb.Publisher[Any]("topic", domain=here.domain) as publisher,
        tb.Subscriber[Any]("topic", domain=there.domain, timeout=PATIENCE) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        times = [
            away(bridge, publisher, subscriber)
            for _ in range(int(sys.argv[1]))
            for bridge in (here, there)
        ]
    print(json.dumps(times))


if __name__ == "__main__":
    main()
