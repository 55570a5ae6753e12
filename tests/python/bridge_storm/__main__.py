"""python -m bridge_storm [--queues] [--zenoh | --tls] [--faults N] [--seed S]"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from bridge_storm.queues import QueueStorm
from bridge_storm.topics import TopicStorm
from support.bridge.machines import Machines, why_no_machines


def main() -> int:
    parser = argparse.ArgumentParser(prog="bridge_storm", description=__doc__)
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--queues", action="store_true", help="of queues, not of topics")
    network = parser.add_mutually_exclusive_group()
    network.add_argument("--zenoh", action="store_true", help="over a network of Zenoh")
    network.add_argument("--tls", action="store_true", help="with certificates")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    if why := why_no_machines():
        print(f"machines cannot be made here: {why}")
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="tensorbus-bridges-") as folder,
        Machines(2, wire=True, seed=options.seed) as machines,
    ):
        kind = QueueStorm if options.queues else TopicStorm
        storm = kind(machines, Path(folder), options.seed, zenoh=options.zenoh, tls=options.tls)
        storm.run(options.faults)
        for name, value in storm.report().items():
            print(f"{name:32} {value}")
        if storm.wrong:
            storm.print_logs()
    return 1 if storm.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
