"""Many topics on a machine, and how long until it sees those of all machines.

    topics.py COUNT ALL OWN-ADDRESS OTHER-ADDRESS...

It says "ready" when it has published COUNT topics, waits for a line, starts its bridge, and says in
JSON the seconds until ALL topics are listed here.
"""

from __future__ import annotations

import json
import socket
import sys
import time

from echo import PATIENCE, PORT, bridge

import tensorbus as tb


def main() -> None:
    count, everything = int(sys.argv[1]), int(sys.argv[2])
    own, *others = sys.argv[3:]
    options = ["--listen", f"{own}:{PORT}"]
    for other in others:
        options += ["--connect", f"{other}:{PORT}"]
    name = socket.gethostname()
    publishers = [tb.Publisher[bytes](f"{name}/{number}") for number in range(count)]
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.monotonic()
    with bridge(*options):
        while sum(not one.name.startswith("tensorbus/") for one in tb.list_topics()) < everything:
            assert time.monotonic() - begin < PATIENCE
            time.sleep(0.02)
        print(json.dumps({"seconds": time.monotonic() - begin}), flush=True)
        sys.stdin.readline()
    for publisher in publishers:
        publisher.close()


if __name__ == "__main__":
    main()
