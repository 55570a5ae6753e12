"""systemd: units as it reads them, and a manager of a user that runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.harness import PATIENCE, eventually

SYSTEMD = Path("/lib/systemd/systemd")
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}

# In a control group of its own, which is the root for what it starts, on a machine that seems to
# have been booted with systemd. A manager moves all processes of its root: they must be its own.
_BOOT = """
set -e
mount -t tmpfs none /mnt
mkdir /mnt/cgroup
mount -t cgroup2 none /mnt/cgroup
group=/mnt/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/tensorbus-test-$$
mkdir "$group"
(
    echo 0 >"$group/cgroup.procs" &&
    exec timeout --foreground 100 unshare --mount --cgroup sh -ec '
        mount -t cgroup2 none /sys/fs/cgroup
        test "$(wc -l </sys/fs/cgroup/cgroup.procs)" -lt 5
        mount -t tmpfs none /run
        mkdir -p /run/systemd/system
        exec /lib/systemd/systemd --user --unit=basic.target'
) || true
echo 1 >"$group/cgroup.kill"
while ! find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; do sleep 0.1; done
"""


def settings(text: str) -> list[tuple[str, str]]:
    """The keys and values of a unit file, in their order."""
    lines = [line for line in text.split("\n") if line and line[0] not in "#["]
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


def words(value: str) -> list[str]:
    """Words as systemd.syntax(7) describes them: quotes, escapes of C, and `%%`."""
    found: list[str] = []
    word: str | None = None
    quote = ""
    rest = iter(value)
    for each in rest:
        if each == "\\":
            kind = next(rest)
            each = chr(int(next(rest) + next(rest), 16)) if kind == "x" else _ESCAPES[kind]
            word = (word or "") + each
        elif each == "%":
            assert next(rest) == "%", value
            word = (word or "") + each
        elif each == quote:
            quote = ""
        elif not quote and each in "\"'":
            quote, word = each, word or ""
        elif not quote and each in " \t":
            found += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + each
    assert not quote, value
    return found + ([] if word is None else [word])


def why_no_manager() -> str:
    """Why a manager cannot run here; "" if it can."""
    if os.geteuid():
        return "needs root, to make a control group"
    if not SYSTEMD.exists() or not shutil.which("unshare"):
        return "needs systemd and unshare"
    if "cgroup2" not in Path("/proc/filesystems").read_text():
        return "needs control groups of version 2"
    return ""


class Manager:
    """A manager of a user."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def ctl(self, *arguments: str) -> str:
        """What `systemctl --user` prints."""
        done = subprocess.run(
            ["systemctl", "--user", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout + done.stderr

    def state(self, unit: str) -> str:
        """The state of a unit, such as "active"."""
        return self.ctl("show", "--value", "--property", "ActiveState", unit).strip()

    def until(self, unit: str, state: str) -> None:
        """Waits until a unit has a state."""
        eventually(lambda: self.state(unit) == state)

    def pid(self, unit: str) -> int:
        """The pid of the process of a service; 0: there is none."""
        return int(self.ctl("show", "--value", "--property", "MainPID", unit))


@contextmanager
def manager(units: Path) -> Iterator[Manager]:
    """A manager of a user that finds the units of a folder."""
    with tempfile.TemporaryDirectory(prefix="tb") as folder:  # short: it has sockets in it
        environment = {
            **os.environ,
            "HOME": folder,
            "XDG_RUNTIME_DIR": folder,
            "SYSTEMD_UNIT_PATH": f"{units}:",
        }
        for name in ("DBUS_SESSION_BUS_ADDRESS", "TENSORBUS_DOMAIN"):
            environment.pop(name, None)
        boot = ["unshare", "--mount", "sh", "-c", _BOOT]
        with subprocess.Popen(boot, env=environment, stdin=subprocess.DEVNULL) as process:
            found = Manager(environment)
            try:
                found.until("basic.target", "active")
                yield found
            finally:
                found.ctl("exit")
                process.wait(PATIENCE)
