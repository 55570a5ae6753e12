"""A machine or sandbox that lacks something: the first call says what, and what to do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from textwrap import dedent

import pytest

from support.harness import PATIENCE, SANITIZED

UNSHARED = ["unshare", "--user", "--map-root-user", "--mount"]

# The first call of a program.
PROGRAM = """
    import tensorbus as tb

    try:
        tb.Publisher("numbers")
    except tb.Error as error:
        print(type(error).__name__, error)
"""


def may_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = [*UNSHARED, "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not may_unshare(), reason="namespaces cannot be made here")


def first_call(prepare: str, domain: str = "/mnt/bus") -> str:
    """What it says where this was done before."""
    shell = f'{prepare} && TENSORBUS_DOMAIN={domain} exec "$@"'
    command = [*UNSHARED, "sh", "-c", shell, "sh", sys.executable, "-c", dedent(PROGRAM)]
    return subprocess.check_output(command, text=True, timeout=PATIENCE)


def test_a_read_only_file_system() -> None:
    told = first_call("mount -t tmpfs -o ro none /mnt")
    assert told.startswith("AccessDenied")
    assert "read-only: mount it writable, or set TENSORBUS_DOMAIN" in told


def test_a_full_file_system() -> None:
    told = first_call("mount -t tmpfs -o nr_inodes=1 none /mnt")
    assert told.startswith("OutOfMemory")
    assert "make room there, or set TENSORBUS_DOMAIN" in told


@pytest.mark.skipif(SANITIZED, reason="the sanitizer needs /proc")
def test_without_proc() -> None:
    # A namespace of a user may hide /proc, but not unmount it.
    told = first_call("mount -t tmpfs none /mnt && mount -t tmpfs none /proc")
    assert told.startswith("Unsupported")
    assert "/proc is not mounted" in told
    assert "mount -t proc" in told


def test_a_file_system_without_programs_is_enough() -> None:
    assert first_call("mount -t tmpfs -o noexec,nosuid,nodev none /mnt") == ""
