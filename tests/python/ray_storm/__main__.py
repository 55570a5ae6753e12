"""Runs the storm: python -m ray_storm [--kills N] [--seed S] [--transport NAME].

`--transport PLAIN`: objects carry their tensors, so what goes wrong is Ray's; `""`: none, tensors
go through Ray's object store.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from support.in_ray.driver import LIMITS, SETTINGS

if TYPE_CHECKING:
    from ray_storm.storm import Figures


def storm(folder: Path, ray_folder: str, arguments: argparse.Namespace) -> Figures:
    import ray  # which reads the environment

    from ray_storm.storm import run

    ray.init(
        num_cpus=2,
        object_store_memory=200 << 20,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=ray_folder,
    )
    try:
        return run(str(folder), arguments.kills, arguments.seed, arguments.transport or None)
    finally:
        ray.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--transport", default="TENSORBUS_NUMPY")
    arguments = parser.parse_args()
    print(f"-- actors of Ray, number {arguments.seed}", flush=True)
    os.environ |= {**SETTINGS, **LIMITS}
    ray_folder = tempfile.mkdtemp(prefix="ray")  # a short path, for Ray's sockets
    try:
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            os.environ["TENSORBUS_DOMAIN"] = f"{folder}/domain"
            figures = storm(Path(folder), ray_folder, arguments)
    finally:
        shutil.rmtree(ray_folder, ignore_errors=True)
    for wrong in figures.wrong:
        print(wrong)
    errors = ", ".join(f"{count} {reason}" for reason, count in sorted(figures.errors.items()))
    print(
        f"actors of Ray: {figures.kills} kills, {figures.calls} calls, {figures.right} right,"
        f" {len(figures.wrong)} wrong; errors: {errors}; the slowest took {figures.slowest:.0f} s;"
        f" {figures.left_by_ray} objects left by Ray"
    )
    return bool(figures.wrong)


if __name__ == "__main__":
    sys.exit(main())
