"""``python -m tensorbus``: runs the program ``tensorbus`` of this installation."""

from __future__ import annotations

import os
import sys

from tensorbus._cli.command import main
from tensorbus._cli.program import program


def _run() -> int:
    path = program()
    if path is None:
        return main()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(_run())
