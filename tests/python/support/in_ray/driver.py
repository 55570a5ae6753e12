"""Runs functions in a process that is the driver of a Ray instance of its own.

Ray starts threads, and other tests of this process fork.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.harness import PATIENCE, Elsewhere, hear

if TYPE_CHECKING:
    from support.bridge.machines import Machine

# Workers import PyTorch, beside other tests.
START = 20 * PATIENCE

SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray's 15 is for ever on a busy machine
}

# Those of Ray are 60 and 30 seconds.
LIMITS = {
    "RAY_rdt_fetch_fail_timeout_milliseconds": "5000",
    "RAY_actor_scheduling_queue_max_reorder_wait_seconds": "5",
}


class Driver:
    """The driver, in the hands of the tests.

    Args:
        folder: for what it needs.
        address: of a Ray instance, which runs already; else the driver starts its own.
        machine: where the driver runs.
        limits: settings of Ray.
    """

    def __init__(
        self,
        folder: Path,
        address: str = "",
        machine: Machine | None = None,
        limits: Mapping[str, str] | None = None,
    ) -> None:
        self._elsewhere = Elsewhere(folder)
        self._elsewhere.quietly = False  # Ray writes to stderr
        settings = {**SETTINGS, **(limits or {}), "TENSORBUS_DOMAIN": str(folder / "domain")}
        if address:
            settings["RAY_ADDRESS"] = address
        self._process = self._elsewhere.start(serve, env=settings, machine=machine)
        address, self._logs = self._process.hear(START)
        self.env = {**settings, "RAY_ADDRESS": address}
        """The environment of other drivers of this instance."""

    def run(self, module: str, function: str, *arguments: object) -> None:
        """Runs it in the driver, and raises its errors here."""
        self._process.tell((module, function, arguments))
        failed = self._process.hear(START)
        assert not failed, failed

    def logs(self) -> str:
        """The last lines that each worker of the driver's own Ray instance has written."""
        found = sorted(Path(self._logs).glob("*/logs/*worker-*")) if self._logs else []
        texts = [(path.name, path.read_text(errors="replace").splitlines()) for path in found]
        return "\n".join(f"== {name}\n" + "\n".join(lines[-20:]) for name, lines in texts if lines)

    def finish(self) -> None:
        """Ends Ray and the driver."""
        self._elsewhere.finish()

    def kill(self) -> None:
        """Kills the driver of an instance that it has not started."""
        self._process.kill_if_running()


def serve() -> None:
    """In the driver: runs what it hears, until the test ends."""
    import ray

    replies = sys.stdout
    sys.stdout = sys.stderr  # Ray prints, too
    options: dict[str, Any] = {"log_to_driver": False}
    if own := "RAY_ADDRESS" not in os.environ:
        os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="ray")  # short, for Ray's sockets
        options |= {"num_cpus": 2, "object_store_memory": 100 << 20, "include_dashboard": False}
    for last in (False, False, True):
        try:
            ray.init(**options)
            break
        except Exception:  # its node has 30 seconds to start, which is little on a busy machine
            ray.shutdown()
            if last:
                raise
    try:
        address = ray.get_runtime_context().gcs_address
        logs = f"{os.environ['RAY_TMPDIR']}/ray" if own else ""
        print(repr((address, logs)), file=replies, flush=True)
        while True:
            module, name, arguments = hear()
            failed = ""
            try:
                getattr(importlib.import_module(module), name)(*arguments)
            except Exception:
                failed = traceback.format_exc()
            print(repr(failed), file=replies, flush=True)
    finally:
        ray.shutdown()
        if own:
            shutil.rmtree(os.environ["RAY_TMPDIR"], ignore_errors=True)
