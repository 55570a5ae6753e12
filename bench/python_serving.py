"""Requests through the web server of docs/tasks/inference_service.md, beside one without the bus.

Images of 0.6 MB come over HTTP, on a Unix socket, from 32 clients that each wait for their answer.
The web server hands them in batches to two workers with a model. Without the bus the batches are
put together in the event loop, and go through `concurrent.futures`. Both have the same HTTP server,
handler and model. `without HTTP`: the clients are coroutines in the process of the pool.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from harness.other_process import PATIENCE
from harness.report import is_quick, report
from serving.load import Load

BENCH = Path(__file__).parent
PAGE = BENCH.parent / "docs/tasks/inference_service.md"
CLIENTS = 32
IMAGE = bytes(4 * 3 * 224 * 224)


def write_program(folder: Path) -> None:
    (program,) = re.findall(r"^```python\n# app.py\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    (folder / "app.py").write_text(program)


@contextmanager
def served(module: str, folder: Path) -> Iterator[Path]:
    """A web server, and its socket."""
    place = folder / f"{module}.sock"
    path = os.pathsep.join([str(folder), str(BENCH), *filter(None, sys.path)])
    command = [sys.executable, "-m", "uvicorn", f"{module}:app", "--uds", str(place)]
    command += ["--log-level", "warning", "--timeout-keep-alive", "600"]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}) as server:
        try:
            deadline = time.monotonic() + 5 * PATIENCE
            while not place.exists():
                if server.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("the web server did not start")
                time.sleep(0.05)
            yield place
        finally:
            server.terminate()


async def ask(pool: Any, count: int) -> None:
    """A client without HTTP, in the process of the pool."""
    image = np.frombuffer(IMAGE, np.float32).reshape(3, 224, 224)
    for _ in range(count):
        await asyncio.wrap_future(pool.submit(image, timeout=PATIENCE))


async def measure_pools(repetitions: int, count: int) -> None:
    app, by_hand = import_module("app"), import_module("serving.by_hand")
    async with by_hand.lifespan(None) as by_hand_state, app.lifespan(None) as bus_state:
        pools = {"by hand": by_hand_state["pool"], "tensorbus": bus_state["pool"]}
        for pool in pools.values():
            await asyncio.gather(*(ask(pool, 1) for _ in range(CLIENTS)))
        for repetition in range(repetitions):
            for row, pool in pools.items():
                begin = time.perf_counter_ns()
                await asyncio.gather(*(ask(pool, count) for _ in range(CLIENTS)))
                each = (time.perf_counter_ns() - begin) / (count * CLIENTS)
                report(f"without HTTP: {row}", repetition, each_ns=each)


def measure_servers(folder: Path, repetitions: int, count: int) -> None:
    with served("serving.by_hand", folder) as by_hand, served("app", folder) as bus:
        places = {"by hand": by_hand, "tensorbus": bus}
        loads = {row: Load(place, IMAGE, CLIENTS) for row, place in places.items()}
        for load in loads.values():
            load.ns_each(1)
        for repetition in range(repetitions):
            for row, load in loads.items():
                report(f"HTTP: {row}", repetition, each_ns=load.ns_each(count))
        for load in loads.values():
            load.close()


def main() -> None:
    quick = is_quick(__doc__)
    repetitions, count = (2, 2) if quick else (7, 10)
    with tempfile.TemporaryDirectory() as name:
        write_program(Path(name))
        sys.path.insert(0, name)
        measure_servers(Path(name), repetitions, count)
        asyncio.run(measure_pools(repetitions, count))


if __name__ == "__main__":
    main()
