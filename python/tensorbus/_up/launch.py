"""Becomes a program of a pipeline: the last step before its `exec`, run as a script.

    python -I -S launch.py SUPERVISOR NICE CPUS PROGRAM [ARGUMENT...]

The program dies with its supervisor, also if that is killed. CPUS is "-" or "0,2,3". This module
imports little: it runs at each start of a process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(supervisor: str, nice: str, cpus: str, *command: str) -> int:
    """Returns only if the program cannot be run."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(supervisor):
        return 1  # the supervisor died before the line above
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them
    try:
        if cpus != "-":
            os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
        if int(nice):
            os.nice(int(nice))
        os.execvp(command[0], command)
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
