"""python -m storm [--kills N] [--seconds S] [--seed S] [--json FILE]"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

from storm.folders import folder_with_domain
from storm.storm import Storm, tell
from storm.zygote import Leaves


def main() -> int:
    parser = argparse.ArgumentParser(prog="storm", description="Kills, and a ledger of every item.")
    parser.add_argument("--kills", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=0, help="at least so long")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with folder_with_domain() as folder:
        storm = Storm(folder, options.seed)
        storm.run(options.kills, options.seconds)
        report = storm.report()
        tell(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if storm.wrong else 0


if __name__ == "__main__":
    try:
        code = main()
    except Leaves:
        code = 0
    sys.exit(code)
