"""Where training and serving spend it: whole programs, over Tensorbus and beside others.

Batches of a `DataLoader`, eight actors and a learner, an inference server with four clients
(bench/training has one file for each). The time is that of one batch, trajectory or request.
`shared memory` is `multiprocessing.shared_memory` with a queue for the names of blocks.
"""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import torch

from harness.other_process import fork
from harness.own_ray import start_ray
from harness.report import is_quick, report, report_absent
from training import actors, channels, loaders, serving


def in_a_domain(measure: Callable[..., float], *arguments: Any) -> float:
    """In a process of its own, which forks the others: what one leaves behind, none finds."""
    ours, theirs = fork.Pipe(duplex=False)

    def run() -> None:
        with TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain:
            os.environ["TENSORBUS_DOMAIN"] = domain
            theirs.send(measure(*arguments))

    process = fork.Process(target=run)
    process.start()
    theirs.close()
    try:
        took: float = ours.recv()
    except EOFError:
        raise SystemExit(f"{measure.__name__}{arguments} failed") from None
    process.join()
    return took


def measure_loaders(repetition: int, quick: bool) -> None:
    for title, keeps in (("a batch, let go", False), ("a batch, kept", True)):
        for name, context in loaders.CONTEXTS.items():
            each = in_a_domain(loaders.each_batch, context, 6 if quick else 40, keeps)
            report(f"{title}: {name}", repetition, each_ns=each)


def measure_programs(repetition: int, quick: bool) -> None:
    for kind in channels.ALL:
        each = in_a_domain(actors.each_trajectory, kind, 16 if quick else 200)
        report(f"a trajectory: {kind.name}", repetition, each_ns=each)
    for kind in channels.ALL:
        each = in_a_domain(serving.each_request, kind, 10 if quick else 200)
        report(f"a request: {kind.name}", repetition, each_ns=each)


def with_ray(measure: Callable[[Any, int], float], count: int) -> float:
    ray = start_ray()
    try:
        return measure(ray, count)
    finally:
        ray.shutdown()


def measure_ray(repetition: int, quick: bool) -> None:
    rows = {
        "a trajectory": (actors.each_trajectory_with_ray, 200),
        "a request": (serving.each_request_with_ray, 100),
    }
    for title, (measure, count) in rows.items():
        each = in_a_domain(with_ray, measure, count // 10 if quick else count)
        report(f"{title}: Ray", repetition, each_ns=each)


def main() -> None:
    quick = is_quick(__doc__)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    gc.disable()
    has_ray = importlib.util.find_spec("ray") is not None
    if not has_ray:
        report_absent("Ray", "ray is not installed (scripts/bench --peers installs it)")
    for repetition in range(1 if quick else 3):
        measure_loaders(repetition, quick)
        measure_programs(repetition, quick)
        if has_ray:
            measure_ray(repetition, quick)


if __name__ == "__main__":
    main()
