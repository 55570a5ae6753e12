"""The machines of the tests are apart, and nothing is left of them."""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import tensorbus as tb
from support.bridge.machines import Machine, Machines
from support.harness import PATIENCE, Elsewhere, eventually, hear, here_first, tell

pytestmark = pytest.mark.machines

# A program that ignores what would end it, and has a child that is in another session.
STUBBORN = 'trap "" TERM INT HUP; setsid sleep 1000 & sleep 1000 & echo up; wait'


def start_stubborn(machine: Machine) -> subprocess.Popen[bytes]:
    program = machine.run(["sh", "-c", STUBBORN])
    eventually(lambda: machine.output(program) == "up\n")
    return program


def in_namespace(kind: str, namespace: str) -> list[int]:
    """The processes that are in it."""

    def is_in(folder: Path) -> bool:
        try:
            return os.readlink(folder / "ns" / kind) == namespace
        except OSError:  # it has ended meanwhile
            return False

    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if is_in(folder)]


def pids_of(machine: Machine) -> list[int]:
    return in_namespace("pid", os.readlink(f"/proc/{machine.pid}/ns/pid"))


def processes_of(machine: Machine) -> list[int]:
    """Descriptors that are readable when they have ended."""
    return [os.pidfd_open(pid) for pid in pids_of(machine)]


def wait_for_end(processes: list[int]) -> None:
    for process in processes:
        with os.fdopen(process):
            readable, _, _ = select.select([process], [], [], PATIENCE)
            assert readable


def publish_and_tell_topics(topic: str) -> None:
    with tb.Publisher(topic):
        tell("published")
        assert hear() == "all have"
        tell((socket.gethostname(), os.environ["TENSORBUS_DOMAIN"], topics()))


def topics() -> list[str]:
    return [topic.name for topic in tb.list_topics()]


def test_machines_have_a_domain_and_a_name_of_their_own(elsewhere: Elsewhere) -> None:
    with Machines(2) as machines:
        programs = [
            elsewhere.start(publish_and_tell_topics, f"of/{machine.name}", machine=machine)
            for machine in machines
        ]
        for program in programs:
            assert program.hear() == "published"
        assert topics() == []
        for machine, program in zip(machines, programs, strict=True):
            program.tell("all have")
            assert program.hear() == (machine.name, machine.domain, [f"of/{machine.name}"])
            program.finish()


@pytest.mark.parametrize("wire", [False, True])
def test_each_machine_reaches_each_other_one_by_name(wire: bool) -> None:
    with Machines(3, wire=wire) as machines:
        for server in machines:
            with server.network():
                listener = socket.create_server((server.address, 5000))
            for client in machines:
                connect = f"import socket; socket.create_connection(('{server.name}', 5000))"
                client.call([sys.executable, "-I", "-c", connect])
                connection, (address, _) = listener.accept()
                assert address == client.address
                connection.close()
            listener.close()


@pytest.mark.parametrize("wire", [False, True])
def test_what_is_multicast_reaches_all_other_machines(wire: bool) -> None:
    group = "224.0.0.224"
    with Machines(3, wire=wire) as machines:
        sockets = []
        for machine in machines:
            with machine.network():
                receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.settimeout(PATIENCE)
            receiver.bind((group, 7446))
            member = socket.inet_aton(group) + socket.inet_aton(machine.address)
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            sockets.append(receiver)
        with machines[0].network(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            own = socket.inet_aton(machines[0].address)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
            sender.sendto(b"to all", (group, 7446))
        for receiver in sockets:
            with receiver:
                assert receiver.recv(100) == b"to all"


def test_the_end_of_machines_ends_all_of_their_processes() -> None:
    with Machines(2) as machines:
        programs = [start_stubborn(machine) for machine in machines]
        processes = [each for machine in machines for each in processes_of(machine)]
        assert len(processes) >= 2 * 4
    wait_for_end(processes)
    assert [program.returncode for program in programs] == [-9, -9]


def test_all_processes_of_a_machine_can_be_stopped_and_go_on() -> None:
    def states() -> set[str]:
        stats = [Path(f"/proc/{pid}/stat").read_text() for pid in pids_of(machine)]
        return {stat.rpartition(") ")[2][0] for stat in stats}

    with Machines(2) as (machine, other):
        start_stubborn(machine)
        beside = start_stubborn(other)
        machine.stop()
        # The first process, which cannot be stopped, sleeps.
        eventually(lambda: states() == {"T", "S"} and len(pids_of(machine)) == 4)
        assert "T (" not in Path(f"/proc/{beside.pid}/status").read_text()
        machine.go_on()
        eventually(lambda: states() == {"S"})


def test_a_machine_whose_first_process_was_killed_can_end() -> None:
    with Machines(1) as (machine,):
        program = start_stubborn(machine)
        os.kill(machine.pid, signal.SIGKILL)
        program.wait()


def test_a_stopped_process_ends_with_its_machine() -> None:
    with Machines(1) as (machine,):
        program = start_stubborn(machine)
        os.kill(program.pid, signal.SIGSTOP)
        os.waitpid(program.pid, os.WUNTRACED)
    assert program.returncode == -9


@pytest.mark.parametrize("wire", [False, True])
def test_a_killed_machine_starts_again_with_empty_files(wire: bool) -> None:
    with Machines(2, wire=wire) as (machine, other):
        machine.call(["touch", "/run/made"])
        program = start_stubborn(machine)
        processes = processes_of(machine)
        machine.kill()
        wait_for_end(processes)
        assert program.returncode == -9
        machine.boot()
        assert machine.call(["sh", "-ec", "test ! -e /run/made; hostname"]) == f"{machine.name}\n"
        with machine.network():
            listener = socket.create_server((machine.address, 5000))
        with listener, other.network():
            socket.create_connection((machine.address, 5000), timeout=PATIENCE).close()


ECHO = """
import socket, sys
listener = socket.create_server((sys.argv[1], 5000))
print("listens", flush=True)
connection, _ = listener.accept()
while data := connection.recv(100):
    connection.sendall(data)
"""


@pytest.mark.parametrize("wire", [False, True])
def test_a_killed_machine_leaves_connections_half_open(wire: bool) -> None:
    with Machines(2, wire=wire) as (client, server):
        program = server.run([sys.executable, "-c", ECHO, server.address])
        eventually(lambda: server.output(program) == "listens\n")
        with client.network():
            connection = socket.create_connection((server.address, 5000), timeout=PATIENCE)
        with connection:
            connection.sendall(b"hello")
            assert connection.recv(100) == b"hello"
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 500)
            server.kill()
            connection.sendall(b"are you there?")
            with pytest.raises(OSError, match=r"timed out|No route to host") as error:
                connection.recv(100)  # neither an end nor a reset
            assert error.value.errno in (errno.ETIMEDOUT, errno.EHOSTUNREACH)


def test_after_an_exception_what_programs_wrote_is_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        with Machines(1) as (machine,):
            start_stubborn(machine)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert re.search(r"^--- machine1, pid \d+.*\nup$", capfd.readouterr().out, re.MULTILINE)


MAKES_MACHINES = """
import sys, time
from support.bridge.machines import Machines
from test_machines import start_stubborn

with Machines(2, wire=True) as machines:
    for machine in machines:
        start_stubborn(machine)
    print(*(machine.pid for machine in (*machines, machines.middle)), flush=True)
    time.sleep(1000)
"""


def test_nothing_is_left_when_the_process_of_a_test_is_killed() -> None:
    environment = here_first()
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", MAKES_MACHINES],
        stdout=subprocess.PIPE,
        env=environment,
    ) as test:
        assert test.stdout is not None
        firsts = [int(pid) for pid in test.stdout.readline().split()]
        assert len(firsts) == 3
        networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in firsts}
        processes = [os.pidfd_open(pid) for pid in firsts]
        test.kill()
    wait_for_end(processes)
    eventually(lambda: not any(in_namespace("net", network) for network in networks))
