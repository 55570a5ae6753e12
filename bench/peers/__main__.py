"""Peers by themselves, to see that they work: python -m peers "pyzmq ipc" pipe, in bench.

Prints a JSON object a line: a peer's figures by size, or why it is `absent`, or how it `failed`.
Without arguments: the peers' names.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from harness.one_way import Failed, Pace, measure
from peers import PEERS, Peer

SIZES = [64, 1 << 16]
SHORT = Pace(seconds=0.001)


def tried(kind: type[Peer]) -> dict[str, Any]:
    why = kind.absence()
    if why is not None:
        return {"absent": why}
    try:
        return {"sizes": measure(kind, SIZES, SHORT, kind.patience)}
    except Failed as failure:
        return {"failed": str(failure)}


def main() -> None:
    torch.set_num_threads(1)
    kinds = {kind.name: kind for kind in PEERS}
    if len(sys.argv) == 1:
        print("\n".join(kinds))
    for name in sys.argv[1:]:
        print(json.dumps({"name": name, **tried(kinds[name])}), flush=True)


if __name__ == "__main__":
    main()
