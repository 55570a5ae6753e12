"""The cores of a benchmark of two processes, chosen as cores.hpp chooses them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class CorePair(NamedTuple):
    sender: int
    receiver: int


def core_pair() -> CorePair:
    """TENSORBUS_BENCH_CORES="2,3", or two cores of one package that are not threads of one core."""
    text = os.environ.get("TENSORBUS_BENCH_CORES")
    if text is not None:
        try:
            sender, receiver = map(int, text.split(","))
        except ValueError:
            sys.exit(f'TENSORBUS_BENCH_CORES: expected "2,3", got "{text}"')
        return CorePair(sender, receiver)
    first, *others = sorted(os.sched_getaffinity(0))
    package, core = _topology(first)
    beside = [other for other in others if _topology(other)[0] == package]
    if not beside:
        sys.exit("two processes need two cores of one package")
    apart = [other for other in beside if _topology(other)[1] != core]
    return CorePair(first, apart[0] if apart else beside[-1])


def pin_to(core: int) -> None:
    """The calling thread, and every one that it starts afterwards."""
    os.sched_setaffinity(0, {core})


@contextmanager
def pinned_to(core: int) -> Iterator[None]:
    """The calling thread, for as long as the block runs."""
    before = os.sched_getaffinity(0)
    pin_to(core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _topology(core: int) -> tuple[str, str]:
    """What the kernel says of a core: its package, and its number in there."""
    folder = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        return (
            (folder / "physical_package_id").read_text(),
            (folder / "core_id").read_text(),
        )
    except OSError:
        return "", ""
