"""The three nodes, each in a process of its own; ends when the monitor does."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path


def started(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, Path(__file__).with_name(program), *sys.argv[1:]])


def main() -> int:
    with ExitStack() as running:
        servants = [running.enter_context(started(name)) for name in ("plant.py", "controller.py")]
        code = running.enter_context(started("monitor.py")).wait()
        for servant in servants:
            servant.terminate()
        # 143: SIGTERM, after its clean-up
        return code or (0 if all(each.wait() == 143 for each in servants) else 1)


if __name__ == "__main__":
    sys.exit(main())
