"""Machines, for the tests of what goes between them: namespaces of Linux on one host.

    with Machines(2) as (one, two):
        one.call(["ping", "-c", "1", two.name])

Each has a network, processes, a hostname, a /dev/shm, a /run and a domain of its own, and shares
the rest of the file system with the test. They are joined by Ethernet at the full speed of the
host, or, with `wire=True`, by a wire that can be cut: `machines.wire` (see `support.bridge.wire`).

Nothing of a machine has a name on the host. All of it belongs to the machine's first process, which
ends when the process of the test does, however that ends; the kernel then kills the machine's other
processes, and frees its network and its files. So nothing is left over that had to be cleaned up.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from support.bridge.wire import Wire
from support.harness import eventually

TOOLS = ("ip", "mount", "nsenter", "unshare")
FORWARDING = "3\n"  # BR_STATE_FORWARDING
NAMESPACES = ("--net", "--uts", "--ipc", "--mount")
OWN = ("unshare", *NAMESPACES, "--pid", "--fork", "--kill-child", "--mount-proc")

# In the new namespaces, with the name of the machine and its /etc/hosts: becomes the first process.
SET_UP = """
    set -e
    mount -t sysfs none /sys
    mount -t tmpfs none /dev/shm
    mount -t tmpfs none /run
    echo "$0" >/proc/sys/kernel/hostname
    echo "$1" >/run/hosts
    mount --bind /run/hosts /etc/hosts
    ip link set lo up
    shift
    exec "$@"
"""

# Adopts orphans, and ends with the process that the pidfd is of. A pipe would not do: a child that
# the test forked may hold its other end.
FIRST = """
import select, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
test = select.poll()
test.register(int(sys.argv[1]), select.POLLIN)
test.poll()
"""


class Machine:
    def __init__(self, number: int, hosts: str, machines: Machines) -> None:
        self.number = number
        self.name = f"machine{number}"
        self.address = address_of(number)
        self.domain = "/run/domain"  # as its programs see it
        self._hosts = hosts
        self._machines = machines
        self._programs: list[tuple[subprocess.Popen[Any], IO[bytes]]] = []
        self._unshare: subprocess.Popen[bytes] | None = None
        self._first: int | None = None

    @property
    def pid(self) -> int:
        """Of the first process. `/proc/PID/root` is the machine's file system."""
        assert self._first is not None, f"{self.name} is off"
        return self._first

    def run(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
        """Starts a program in this machine, with the options of `subprocess.Popen`.

        Its `pid` is that in the namespace of the test, so signals reach it. What it writes to its
        outputs is kept (see `output`), where no option sends it elsewhere. When the machine ends,
        the program is killed, and so is every process that it has started.
        """
        output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (a pipe could fill up)
        given = options.pop("env", None)
        environment = {**(os.environ if given is None else given), "TENSORBUS_DOMAIN": self.domain}
        folder = options.pop("cwd", os.getcwd())  # which is lost on the way into the namespace
        enter = ["nsenter", f"--target={self.pid}", *NAMESPACES, "env", f"--chdir={folder}"]
        options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, **options}
        with entered(self.pid, "pid"):
            program = subprocess.Popen([*enter, *command], env=environment, **options)
        self._programs.append((program, output))
        return program

    def call(self, command: Sequence[str | Path], **options: Any) -> str:
        """Runs a program in this machine to its end, which must be a good one: what it wrote."""
        program = self.run(command, **options)
        code = program.wait()
        written = self.output(program)
        assert code == 0, f"{self.name}: {command} has ended with {code}\n{written}"
        return written

    def output(self, program: subprocess.Popen[Any]) -> str:
        """What a program of this machine has written until now."""
        (file,) = (file for other, file in self._programs if other is program)
        # Without a seek: the program writes at the same position.
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

    @contextmanager
    def network(self) -> Iterator[None]:
        """The calling thread is in the network of this machine; a socket made there stays there.

        Names of machines are not known to the thread: it needs their `address`.
        """
        with entered(self.pid, "net"):
            yield

    def stop(self) -> None:
        """Stops all of its programs and their children; its kernel goes on to answer."""
        self.call(["kill", "-STOP", "--", "-1"])

    def go_on(self) -> None:
        """The end of `stop`."""
        self.call(["kill", "-CONT", "--", "-1"])

    def kill(self) -> None:
        """Switches the machine off, as when its power fails: its peers hear nothing of it."""
        self._machines.leave(self)
        self.end()

    def end(self) -> None:
        """Kills all processes of the machine at once, and waits for their end."""
        if self._unshare is None:
            return
        if self._first is None:
            self._unshare.kill()  # it has not come up
        else:
            with suppress(ProcessLookupError):  # it has been killed
                signal.pidfd_send_signal(self._first_descriptor, signal.SIGKILL)
            os.close(self._first_descriptor)
        for program, _ in self._programs:
            program.wait()  # the namespace ends when those that it did not start are waited for
        self._unshare.wait()
        self._unshare = self._first = None

    def boot(self) -> None:
        """Starts the machine again after `kill`, with empty files and the same name."""
        self.start()
        self.wait_until_up()
        self._machines.join(self)

    def start(self) -> None:
        test = os.pidfd_open(os.getpid())
        first = (sys.executable, "-I", "-S", "-c", FIRST, str(test))
        command = (*OWN, "sh", "-c", SET_UP, self.name, self._hosts, *first)
        self._unshare = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[test]
        )
        os.close(test)

    def wait_until_up(self) -> None:
        assert self._unshare is not None
        assert self._unshare.stdout is not None
        assert self._unshare.stderr is not None
        with self._unshare.stdout as output, self._unshare.stderr as errors:
            if output.readline() != b"ready\n":
                raise AssertionError(f"{self.name} has not started: {errors.read().decode()}")
        pid = self._unshare.pid
        self._first = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        self._first_descriptor = os.pidfd_open(self._first)

    def print_outputs(self) -> None:
        for program, _ in self._programs:
            if written := self.output(program):
                print(f"--- {self.name}, pid {program.pid}, exit {program.returncode}\n{written}")


class Machines:
    """Machines that are joined: `count` of them, by Ethernet or by a wire.

    The programs that still run at the end are killed. After an exception, what all of them wrote is
    printed, for pytest to show.
    """

    def __init__(self, count: int, *, wire: bool = False, seed: int = 0) -> None:
        numbers = range(1, count + 1)
        hosts = "\n".join(
            ["127.0.0.1 localhost", *(f"{address_of(each)} machine{each}" for each in numbers)]
        )
        self._machines = [Machine(number, hosts, self) for number in numbers]
        # The machine in the middle: the switch of the Ethernet, or the host of the wire's program.
        self.middle = Machine(0, hosts, self)
        self._seed = seed if wire else None
        self._wire: Wire | None = None

    def __enter__(self) -> Machines:
        everything = (self.middle, *self._machines)
        try:
            for machine in everything:
                machine.start()
            for machine in everything:
                machine.wait_until_up()
            if self._seed is None:
                configure(self.middle, "link add switch type bridge mcast_snooping 0")
                configure(self.middle, "link set switch up")
            else:
                self._wire = Wire(self.middle, self._seed)
            for machine in self._machines:
                self.join(machine)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if kind is not None:
            for machine in (*self._machines, self.middle):
                machine.print_outputs()
        self._end()

    def __iter__(self) -> Iterator[Machine]:
        return iter(self._machines)

    def __getitem__(self, index: int) -> Machine:
        return self._machines[index]

    def __len__(self) -> int:
        return len(self._machines)

    @property
    def wire(self) -> Wire:
        assert self._wire is not None, "these machines are joined without a wire"
        return self._wire

    def join(self, machine: Machine) -> None:
        """Connects a machine with the others."""
        if self._wire is not None:
            self._wire.join(machine)
            configure(machine, f"address add {machine.address}/24 broadcast + dev wire0")
            configure(machine, "link set wire0 up", "route add 224.0.0.0/4 dev wire0")
            return
        port = f"port{machine.number}"
        configure(
            self.middle,
            f"link add {port} type veth peer name eth0 netns {machine.pid}",
            f"link set {port} master switch up",
        )
        configure(machine, f"address add {machine.address}/24 dev eth0", "link set eth0 up")
        # The kernel enables the port a little later, and drops what comes before.
        state = Path(f"/proc/{self.middle.pid}/root/sys/class/net/{port}/brport/state")
        eventually(lambda: state.read_text() == FORWARDING)

    def leave(self, machine: Machine) -> None:
        """Takes the machine's network card out."""
        if self._wire is not None:
            self._wire.leave(machine)
        else:
            configure(self.middle, f"link delete port{machine.number}")

    def _end(self) -> None:
        for machine in (*self._machines, self.middle):
            machine.end()
        if self._wire is not None:
            self._wire.close()


def address_of(number: int) -> str:
    return f"10.77.0.{number}"


def configure(machine: Machine, *lines: str) -> None:
    """Lets `ip` change the network of a machine."""
    with machine.network():
        subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


@contextmanager
def entered(pid: int, kind: str) -> Iterator[None]:
    """The calling thread is in a namespace of another process; if it is that of processes ("pid"),
    the thread's new children are."""
    here, there = f"/proc/thread-self/ns/{kind}", f"/proc/{pid}/ns/{kind}"
    with open(here, "rb") as own, open(there, "rb") as other:
        enter(other)
        try:
            yield
        finally:
            enter(own)


def enter(namespace: IO[bytes]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace.fileno(), 0) != 0:
        raise OSError(ctypes.get_errno(), f"setns to {namespace.name}")


@functools.cache
def why_no_machines() -> str | None:
    """What stands against making machines here, if anything does."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    if os.geteuid() != 0:
        return "needs root"
    tried = subprocess.run(
        [*OWN, "sh", "-ec", "mount -t sysfs none /sys; ip link add type veth; : <>/dev/net/tun"],
        capture_output=True,
        text=True,
    )
    return tried.stderr.strip() or "namespaces cannot be made" if tried.returncode else None
