"""Runs the storm: python -m recording_storm [--kills N] [--seed S]."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from recording_storm.storm import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    arguments = parser.parse_args()
    print(f"-- recordings, number {arguments.seed}", flush=True)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["TENSORBUS_DOMAIN"] = f"{folder}/domain"
        figures = run(Path(folder), arguments.kills, arguments.seed)
    told = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in asdict(figures).items())
    print(f"recordings: {told}")


if __name__ == "__main__":
    sys.exit(main())
