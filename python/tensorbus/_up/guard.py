"""The process of `tensorbus up`: it starts the supervisor, and outlives it.

If the supervisor dies, the guard kills all that is left of the pipeline: the kernel makes it the
parent of all orphans. If the guard dies, the supervisor ends the pipeline.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from tensorbus._base.signals import ending_signals
from tensorbus._up import tree
from tensorbus._up.output import Style

_FAILED = 1


def run(
    path: str | os.PathLike[str],
    *,
    style: Style = "plain",
    log_folder: Path | None = None,
    domain: str | None = None,
    with_parent: bool = False,
    ready: int = -1,
    watch: bool = False,
) -> int:
    """Runs the pipeline of a file in this process's main thread. Returns the exit status.

    Args:
        path: the file.
        style: of the lines on standard output.
        log_folder: a folder for a file of each process.
        domain: in place of the domain of the file.
        with_parent: end the pipeline when the parent of this process ends.
        ready: a descriptor to which the supervisor writes the path of its socket, or -1. It is
            closed then.
        watch: start processes again when their files change.
    """
    tree.adopt_orphans()
    parent = os.pidfd_open(os.getppid()) if with_parent else -1
    forwarded = set(ending_signals())
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    handlers = {
        number: signal.signal(number, lambda number, frame: None)
        for number in (*forwarded, signal.SIGCHLD)
    }
    before = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    command = [sys.executable, "-m", "tensorbus._up", str(os.getpid()), style]
    command += [str(log_folder or ""), domain or "", os.fspath(path), str(ready)]
    command += ["watch"] if watch else []
    passed = [ready] if ready >= 0 else []
    # Until the supervisor has its own handlers, signals wait for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)
    try:
        # Not in the group of the terminal, whose Ctrl-C would reach it a second time.
        supervisor = subprocess.Popen(command, start_new_session=True, pass_fds=passed)
    finally:
        if ready >= 0:
            os.close(ready)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
    try:
        return _until_ended(supervisor, wake_read, parent)
    finally:
        tree.end_all()
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for descriptor in (wake_read, wake_write, parent):
            if descriptor >= 0:
                os.close(descriptor)


def _until_ended(supervisor: subprocess.Popen[bytes], wake: int, parent: int) -> int:
    """Forwards signals to the supervisor until it ends."""
    awaited = [wake, *([parent] if parent >= 0 else [])]
    while True:
        for descriptor in select.select(awaited, [], [])[0]:
            if descriptor == parent:
                awaited.remove(parent)
                supervisor.send_signal(signal.SIGTERM)
                continue
            for number in os.read(wake, 64):
                if number == signal.SIGCHLD:
                    for pid, code in tree.reap():
                        if pid == supervisor.pid:
                            supervisor.returncode = code
                elif supervisor.returncode is None:
                    # The terminal is gone: nobody can ask for a second time.
                    hung_up = number == signal.SIGHUP
                    os.kill(supervisor.pid, signal.SIGTERM if hung_up else number)
                    os.kill(supervisor.pid, signal.SIGCONT)  # it may be stopped
        if supervisor.returncode is not None:
            if supervisor.returncode < 0:
                text = tree.exit_text(supervisor.returncode)
                print(f"tensorbus: the supervisor was {text}", file=sys.stderr)
                return _FAILED
            return supervisor.returncode


if __name__ == "__main__":  # started by tensorbus.Pipeline
    ready, log_dir, domain, path = sys.argv[1:]
    folder = Path(log_dir) if log_dir else None
    sys.exit(
        run(path, log_folder=folder, domain=domain or None, with_parent=True, ready=int(ready))
    )
