"""One user has one bus, and no other user gets between: docs/internals/decisions/0019.

Each case is run in a namespace of its own, with /run and /tmp that are empty, as whatever user.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import tensorbus as tb
from support.harness import PATIENCE

ALICE, MALLORY = 54321, 54322

MOUNTED = "mount -t tmpfs -o mode=755 none /run && mount -t tmpfs -o mode=1777 none /tmp"


def may_unshare() -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "setpriv"))):
        return False
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", MOUNTED], capture_output=True, check=False
    )
    return tried.returncode == 0


pytestmark = pytest.mark.skipif(not may_unshare(), reason="needs root, and mount namespaces")


class Machine:
    """A mount namespace with a /run and a /tmp that nobody has used."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", f"{MOUNTED} && echo up && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout
        assert self._holder.stdout.readline() == "up\n"
        self._running: list[subprocess.Popen[str]] = []

    def _command(self, command: list[str], uid: int) -> list[str]:
        user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        return ["nsenter", f"--target={self._holder.pid}", "--mount", *user, *command]

    def shell(self, script: str, uid: int = 0) -> None:
        subprocess.run(self._command(["sh", "-ec", script], uid), check=True)

    def start(self, program: str, uid: int = ALICE, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self._command([sys.executable, "-c", dedent(program)], uid),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], **BYSTANDERS, **environment},
        )
        self._running.append(process)
        return process

    def said(self, program: str, uid: int = ALICE, **environment: str) -> str:
        said, _ = self.start(program, uid, **environment).communicate(timeout=2 * PATIENCE)
        return said.strip()

    def login(self, uid: int = ALICE) -> None:
        place = f"/run/user/{uid}"
        self.shell(f"mkdir -p /run/user && mkdir -m 700 {place} && chown {uid} {place}")

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.communicate()
        self._holder.communicate()


SANITIZER = ["LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS", "PYTHONMALLOC"]
# Without the user's own settings; of the package as it is installed here.
BYSTANDERS = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    "TENSORBUS_CUDA_DRIVER": "off",
    **{name: os.environ[name] for name in SANITIZER if name in os.environ},
}


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    machine.end()


WHERE = """
    import tensorbus as tb

    try:
        print(tb.participant().domain)
    except tb.Error as error:
        print(type(error).__name__, error)
"""
PUBLISHER = """
    import sys
    import tensorbus as tb

    publisher = tb.Publisher("topic")
    print(tb.participant().domain, flush=True)
    publisher.wait_for_subscribers(timeout=60)
    publisher.publish(7)
    sys.stdin.readline()
    print(tb.participant().domain, flush=True)
    sys.stdin.readline()
"""
SUBSCRIBER = """
    import tensorbus as tb

    print(tb.Subscriber("topic", timeout=30).receive().data)
"""
IN_TMP = f"/tmp/tensorbus-{ALICE}/default"
IN_RUN = f"/run/user/{ALICE}/tensorbus/default"


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def test_with_and_without_a_runtime_directory_processes_meet(machine: Machine) -> None:
    assert machine.said(WHERE) == IN_TMP
    machine.login()
    assert machine.said(WHERE) == IN_RUN
    assert machine.said(WHERE, XDG_RUNTIME_DIR=f"/run/user/{ALICE}") == IN_RUN
    machine.shell(f"mkdir -m 700 /run/other && chown {ALICE} /run/other")
    assert machine.said(WHERE, XDG_RUNTIME_DIR="/run/other") == IN_RUN
    machine.shell("test -z $(ls /run/other)")


def test_a_user_with_anothers_runtime_directory_leaves_nothing_there(machine: Machine) -> None:
    machine.login()
    theirs = f"/run/user/{ALICE}"
    assert machine.said(WHERE, uid=0, XDG_RUNTIME_DIR=theirs) == "/tmp/tensorbus-0/default"
    machine.shell(f"test -z $(ls {theirs})")
    assert machine.said(WHERE, XDG_RUNTIME_DIR=theirs) == IN_RUN


def test_a_bus_from_before_the_login_is_found_after_it(machine: Machine) -> None:
    publisher = machine.start(PUBLISHER)
    assert told(publisher) == IN_TMP
    machine.login()
    assert machine.said(SUBSCRIBER) == "7"
    tell(publisher)
    assert told(publisher) == IN_TMP
    tell(publisher)
    assert publisher.wait(PATIENCE) == 0
    assert machine.said(WHERE) == IN_RUN


def test_a_shortage_of_descriptors_is_no_other_bus(machine: Machine) -> None:
    publisher = machine.start(PUBLISHER)
    assert told(publisher) == IN_TMP
    machine.login()
    report = machine.said(
        """
        import os, resource
        import tensorbus as tb

        first = os.dup(0)  # no descriptor above it is open
        for room in range(24):
            if child := os.fork():
                os.waitpid(child, 0)
                continue
            resource.setrlimit(resource.RLIMIT_NOFILE, (first + room, first + room))
            try:
                print(tb.participant().domain, flush=True)
            except tb.OutOfMemory:
                print("OutOfMemory", flush=True)
            os._exit(0)
        """
    )
    assert set(report.splitlines()) == {IN_TMP, "OutOfMemory"}


def test_a_bus_goes_on_when_the_runtime_directory_is_removed_at_logout(machine: Machine) -> None:
    machine.login()
    publisher = machine.start(PUBLISHER)
    assert told(publisher) == IN_RUN
    machine.shell(f"mv /run/user/{ALICE} /run/gone; rm -rf /run/gone || rm -rf /run/gone")
    assert machine.said(SUBSCRIBER) == "7"
    tell(publisher)
    assert told(publisher) == IN_TMP


def test_the_last_that_leaves_removes_the_domain(machine: Machine) -> None:
    assert machine.said(WHERE) == IN_TMP
    machine.shell(f"test ! -e {IN_TMP} && test -d {os.path.dirname(IN_TMP)}")


def test_who_is_on_another_bus_is_named_when_a_wait_ends(machine: Machine) -> None:
    machine.start(PUBLISHER, TENSORBUS_DOMAIN="lab")
    report = machine.said(
        """
        import os, time, warnings
        import tensorbus as tb

        while not os.path.isdir("/tmp/tensorbus-54321/lab"):
            time.sleep(0.01)
        while not any(name.endswith(".pub") for name in os.listdir("/tmp/tensorbus-54321/lab")):
            time.sleep(0.01)
        try:
            tb.Queue.open("jobs", timeout=0.01)
        except tb.Timeout as error:
            print(error)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert not tb.wait_for_topic("topic", timeout=0.01)
        print(*[one.message for one in told])
        try:
            tb.Subscriber("topic").receive(timeout=0.01)
        except tb.Timeout as error:
            print(error)
        from tensorbus import doctor

        print(doctor.examine().host.other_domains)
        """
    )
    lines = report.splitlines()
    assert len(lines) == 4
    assert all("/tmp/tensorbus-54321/lab" in line for line in lines), report


@pytest.mark.parametrize("mode", ["0777", "0755", "0700", "1777"])
def test_a_base_that_another_user_has_made_is_refused(machine: Machine, mode: str) -> None:
    base = os.path.dirname(IN_TMP)
    machine.shell(f"mkdir -m {mode} {base}", MALLORY)
    refused = machine.said(WHERE)
    assert refused.startswith("AccessDenied"), refused
    assert f"{base}, on the way to it, belongs to uid {MALLORY}" in refused
    assert "TENSORBUS_DOMAIN" in refused
    machine.shell(f"test -z $(ls {base})")
    found = machine.said(
        "from tensorbus import doctor; print(doctor.examine().host.domain.why_not)"
    )
    assert f"{base}, on the way to it, belongs to uid {MALLORY}" in found
    machine.login()
    assert machine.said(WHERE) == IN_RUN


@pytest.mark.parametrize("where", ["/tmp/mallory", "/tmp/alice"])
def test_a_link_of_another_user_is_refused(machine: Machine, where: str) -> None:
    machine.shell("mkdir -m 777 /tmp/mallory", MALLORY)
    machine.shell("mkdir -m 700 /tmp/alice", ALICE)
    machine.shell(f"ln -s {where} {os.path.dirname(IN_TMP)}", MALLORY)
    refused = machine.said(WHERE)
    assert refused.startswith("AccessDenied"), refused
    assert f"is a symbolic link of uid {MALLORY}" in refused
    machine.shell("test -z $(ls /tmp/mallory) && test -z $(ls /tmp/alice)")


@pytest.mark.parametrize("make", ["touch", "mkfifo"])
def test_what_is_no_directory_is_refused_at_once(machine: Machine, make: str) -> None:
    machine.shell(f"{make} {os.path.dirname(IN_TMP)}", MALLORY)
    assert "Not a directory" in machine.said(WHERE)


def test_a_domain_of_ours_in_a_directory_of_anothers_is_refused(machine: Machine) -> None:
    machine.shell("mkdir -m 777 /tmp/m", MALLORY)
    machine.shell("mkdir -m 700 /tmp/m/domain", ALICE)
    refused = machine.said(WHERE, TENSORBUS_DOMAIN="/tmp/m/domain")
    assert f"/tmp/m, on the way to it, belongs to uid {MALLORY}" in refused


def test_ordinary_places_work(machine: Machine) -> None:
    machine.shell("mkdir -p /run/home/alice /run/real && ln -s real /run/link")
    machine.shell(f"chown {ALICE}:{ALICE} /run/home/alice /run/real")
    machine.shell("umask 002; mkdir -p /run/home/alice/work; ln -s ../work /run/home/alice/work/w")
    machine.shell(f"chown -R {ALICE}:{ALICE} /run/home")  # of umask 002, its group may write
    for place in ("/run/home/alice/bus", "/run/home/alice/work/bus", "/run/link/bus", "/tmp/a/b/c"):
        assert machine.said(WHERE, TENSORBUS_DOMAIN=place) == place


def test_a_volume_that_root_has_mounted_works(machine: Machine) -> None:
    """An emptyDir of Kubernetes has mode 0777, and no sticky bit."""
    machine.shell("mkdir /run/bus && mount -t tmpfs -o mode=777 none /run/bus")
    assert machine.said(WHERE, TENSORBUS_DOMAIN="/run/bus/robot") == "/run/bus/robot"
    machine.shell("mkdir -m 777 /run/bus/mallory", MALLORY)
    refused = machine.said(WHERE, TENSORBUS_DOMAIN="/run/bus/mallory/robot")
    assert f"belongs to uid {MALLORY}" in refused
    machine.shell("mkdir /run/loose && chmod 777 /run/loose")
    assert "chmod go-w" in machine.said(WHERE, TENSORBUS_DOMAIN="/run/loose/robot")


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="no systemd-tmpfiles here")
def test_systemd_tmpfiles_leaves_a_domain_alone(tmp_path: Path, domain: str) -> None:
    rules = tmp_path / "tmpfiles.conf"
    rules.write_text(f"q {tmp_path} 1777 root root 1s\n")
    with tb.Publisher("topic") as publisher:
        before = sorted(os.listdir(domain))
        assert len(before) == 2
        for name in before:  # times of the file itself cannot be set back for status changes
            os.utime(Path(domain) / name, (0, 0))
        deadline_of(tmp_path / "old")
        subprocess.run(["systemd-tmpfiles", "--clean", str(rules)], check=True)
        assert sorted(os.listdir(domain)) == before
        assert publisher.topic == "topic"
    assert stat.S_ISDIR(os.stat(domain).st_mode)


def deadline_of(probe: Path) -> None:
    """Until systemd-tmpfiles takes what was made before it for old."""
    probe.mkdir()
    (probe / "file").touch()
    rules = probe.parent / "probe.conf"
    rules.write_text(f"q {probe} 1777 root root 1s\n")
    while (probe / "file").exists():
        subprocess.run(["systemd-tmpfiles", "--clean", str(rules)], check=True)
