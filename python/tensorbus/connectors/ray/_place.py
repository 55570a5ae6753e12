"""Where a domain is: whether another process can reach it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tensorbus._base.participant import participant


class Place(NamedTuple):
    """The directory of a domain, and what tells it from those of other machines."""

    domain: str
    boot: str
    device: int
    inode: int

    @classmethod
    def of_this_process(cls) -> Place:
        """The place of the default domain, which this process joins."""
        return cls.of(participant().domain)

    @classmethod
    def of(cls, domain: str) -> Place:
        """The place of the domain with this path. OSError: there is no such directory."""
        found = os.stat(domain)
        return cls(domain, _boot(), found.st_dev, found.st_ino)

    def is_here(self) -> bool:
        """Whether this process sees the same directory: same kernel, same file system."""
        try:
            return self == Place.of(self.domain)
        except OSError:
            return False


@cache
def _boot() -> str:
    """A kernel's random number; all containers of a machine have the same."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
