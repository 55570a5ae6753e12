"""The supervisor's process, which only `tensorbus._up.guard` starts.

python -m tensorbus._up GUARD STYLE LOG_FOLDER DOMAIN FILE READY [watch]
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import cast

from tensorbus._base.errors import AccessDenied, Error, InvalidArgument
from tensorbus._up import tree
from tensorbus._up.output import Output, Style
from tensorbus._up.schema import load
from tensorbus._up.supervisor import Supervisor

_FAILED, _USAGE = 1, 2


def main(
    guard: str, style: str, folder: str, domain: str, path: str, ready: str, watch: str = ""
) -> int:
    """Runs the pipeline. Returns the exit status."""
    if not tree.signal_at_death_of(int(guard), signal.SIGQUIT):
        return _FAILED
    try:
        plan = load(path, domain or None)
        names = [program.name for program in plan.programs]
        logs = Path(folder) if folder else None
        output = Output(names, cast("Style", style), logs)
        supervisor = Supervisor(plan, output.put, bool(watch), logs)
        try:
            return asyncio.run(_run(supervisor, int(ready)))
        finally:
            output.close()
    except (Error, OSError) as error:
        print("\n".join(f"tensorbus: {line}" for line in str(error).split("\n")), file=sys.stderr)
        return _USAGE if isinstance(error, (InvalidArgument, AccessDenied)) else _FAILED


async def _run(supervisor: Supervisor, ready: int) -> int:
    def tell(socket: Path) -> None:
        if ready >= 0:
            os.write(ready, os.fsencode(socket))
            os.close(ready)

    return await supervisor.run(tell)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
