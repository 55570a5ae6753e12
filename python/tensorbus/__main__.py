"""``python -m tensorbus``: runs the program ``tensorbus`` of this installation."""

from __future__ import annotations

import os
import sys

from tensorbus._cli.command import main
from tensorbus._cli.program import program

_MISSING = (
    "tensorbus: the program tensorbus was not built with this package: only commands in Python "
    "are there (docs/install.md)"
)


def _run() -> int:
    path = program()
    if path is None:
        print(_MISSING, file=sys.stderr)
        return main()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(_run())
