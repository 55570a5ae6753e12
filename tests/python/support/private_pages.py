"""Pages that a process has written to in received memory."""

from __future__ import annotations

import tensorbus as tb

SIZES = (1, 5, 1000, 1024, 1025, 100_000)  # elements of 4 bytes: some have less than a page


def private_bytes() -> int:
    return tb.participant().arena["private_bytes"]
