"""``python -m tensorbus``: runs the ``tensorbus`` command."""

from __future__ import annotations

import sys

from tensorbus._cli.command import main

if __name__ == "__main__":
    sys.exit(main())
