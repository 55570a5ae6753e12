"""The wire of the tests does to packets what it is told to, and nothing else.

No test here has an upper bound of time: the machine may be busy.
"""

from __future__ import annotations

import errno
import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from support.bridge.machines import Machine, Machines
from support.bridge.wire import Wire
from support.harness import PATIENCE, eventually

pytestmark = pytest.mark.machines


@contextmanager
def udp(machine: Machine) -> Iterator[socket.socket]:
    with machine.network():
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with end:
        end.settimeout(PATIENCE)
        end.bind((machine.address, 5000))
        yield end


@contextmanager
def tcp(source: Machine, target: Machine) -> Iterator[tuple[socket.socket, socket.socket]]:
    with target.network():
        listener = socket.create_server((target.address, 5001))
    with listener:
        with source.network():
            client = socket.create_connection((target.address, 5001), timeout=PATIENCE)
        with client, listener.accept()[0] as server:
            server.settimeout(PATIENCE)
            yield client, server


def send(numbers: range, source: socket.socket, target: Machine) -> None:
    for number in numbers:
        source.sendto(number.to_bytes(4, "big"), (target.address, 5000))


def receive(count: int, target: socket.socket) -> list[int]:
    return [int.from_bytes(target.recv(100), "big") for _ in range(count)]


def transfer(data: bytes, source: Machine, target: Machine) -> bytes:
    """Through a connection, to its end."""
    with tcp(source, target) as (client, server):

        def write() -> None:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)

        writer = threading.Thread(target=write)
        writer.start()
        received = bytearray()
        while part := server.recv(1 << 20):
            received += part
        writer.join()
    return bytes(received)


def is_transferred(size: int, source: Machine, target: Machine) -> bool:
    data = Random(size).randbytes(size)
    return hashlib.sha256(transfer(data, source, target)).digest() == hashlib.sha256(data).digest()


def cut_count(wire: Wire) -> int:
    return wire.counts().cut


def test_a_wire_without_faults_delivers_every_packet_in_order() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        with udp(one) as source, udp(two) as target:
            send(range(100), source, two)
            assert receive(100, target) == list(range(100))
        assert is_transferred(50_000_000, one, two)
        counts = machines.wire.counts()
        assert (counts.lost, counts.cut, counts.reordered) == (0, 0, 0)


def test_a_transfer_has_right_bytes_when_five_percent_are_lost() -> None:
    with Machines(2, wire=True, seed=5) as machines:
        machines.wire.lose(5)
        assert is_transferred(1_000_000, machines[0], machines[1])
        counts = machines.wire.counts(source=machines[0])
        assert counts.delivered > 10 * counts.lost > 0


def test_the_same_seed_loses_the_same_packets() -> None:
    def arrived() -> list[int]:
        with Machines(2, wire=True, seed=7) as machines:
            one, two = machines
            machines.wire.lose(30)
            with udp(one) as source, udp(two) as target:
                send(range(100), source, two)
                eventually(lambda: sum(machines.wire.counts(source=one)) == 100)
                count = machines.wire.counts(source=one).delivered
                return receive(count, target)

    first = arrived()
    assert 0 < len(first) < 100
    assert arrived() == first


def test_a_round_trip_takes_at_least_the_delays_of_both_directions() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        machines.wire.delay(0.1, source=one)
        machines.wire.delay(0.2, source=two)
        with udp(one) as source, udp(two) as target:
            begin = time.monotonic()
            send(range(1), source, two)
            assert receive(1, target) == [0]
            assert time.monotonic() - begin >= 0.1
            send(range(1), target, one)
            assert receive(1, source) == [0]
            assert time.monotonic() - begin >= 0.3
        assert is_transferred(1_000_000, one, two)


def test_delayed_packets_keep_their_order() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        machines.wire.delay(0.05)
        with udp(one) as source, udp(two) as target:
            send(range(50), source, two)
            assert receive(50, target) == list(range(50))


def test_packets_overtake_each_other_when_the_delay_varies() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        machines.wire.delay(0, jitter=0.5)
        with udp(one) as source, udp(two) as target:
            send(range(100), source, two)
            received = receive(100, target)
        assert received != sorted(received) == list(range(100))
        assert machines.wire.counts(source=one).reordered > 0
        machines.wire.delay(0, jitter=0.005)
        assert is_transferred(300_000, one, two)


def test_nothing_crosses_a_cut() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        with udp(one) as source, udp(two) as target:
            machines.wire.cut()
            send(range(5), source, two)
            send(range(5), target, one)
            eventually(lambda: cut_count(machines.wire) == 10)
            machines.wire.mend()
            send(range(5, 6), source, two)
            send(range(5, 6), target, one)
            assert receive(1, target) == receive(1, source) == [5]


def assert_lost(wire: Wire, source: socket.socket, two: Machine, target: socket.socket) -> None:
    """Five packets are lost by a cut, and those after it arrive."""
    eventually(lambda: cut_count(wire) == 5)
    wire.mend()
    send(range(5, 6), source, two)
    assert receive(1, target) == [5]


def test_a_cut_loses_what_is_on_its_way() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        with udp(one) as source, udp(two) as target:
            machines.wire.delay(0.3)
            send(range(5), source, two)
            machines.wire.cut()
            assert_lost(machines.wire, source, two, target)


def test_one_direction_can_be_cut() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        with udp(one) as source, udp(two) as target:
            machines.wire.cut(source=one, target=two)
            send(range(5), target, one)
            assert receive(5, source) == list(range(5))
            send(range(5), source, two)
            assert_lost(machines.wire, source, two, target)


def test_one_machine_of_three_can_be_cut_off() -> None:
    with Machines(3, wire=True) as machines:
        one, two, three = machines
        machines.wire.cut(source=three)
        machines.wire.cut(target=three)
        with udp(one) as source, udp(two) as target:
            send(range(5), source, three)
            send(range(5), source, two)
            assert receive(5, target) == list(range(5))
        eventually(lambda: machines.wire.counts(target=three).cut == 5)
        assert machines.wire.counts(source=one, target=two).cut == 0


def test_a_connection_outlives_a_cut() -> None:
    with Machines(2, wire=True) as machines, tcp(*machines) as (client, server):
        machines.wire.cut()
        client.sendall(b"meanwhile")
        eventually(lambda: cut_count(machines.wire) > 0)
        machines.wire.mend()
        assert server.recv(100) == b"meanwhile"


def test_the_kernel_sees_a_half_open_connection() -> None:
    """The client hears nothing: its data arrives, the acknowledgements do not."""
    with Machines(2, wire=True) as machines, tcp(*machines) as (client, server):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 500)
        machines.wire.cut(source=machines[1])
        client.sendall(b"hello")
        assert server.recv(100) == b"hello"
        with pytest.raises(OSError, match="timed out") as error:
            client.recv(1)
        assert error.value.errno == errno.ETIMEDOUT


def test_what_a_stalled_wire_keeps_is_delivered_in_order() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        with udp(one) as source, udp(two) as target:
            machines.wire.stall()
            send(range(10), source, two)
            eventually(lambda: machines.wire.counts().waiting == 10)
            machines.wire.mend()
            send(range(10, 20), source, two)
            assert receive(20, target) == list(range(20))


def test_what_waits_is_delivered_before_what_comes_later_when_a_delay_ends() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        with udp(one) as source, udp(two) as target:
            machines.wire.delay(1000)
            send(range(10), source, two)
            eventually(lambda: machines.wire.counts().waiting == 10)
            machines.wire.lose(0)
            assert machines.wire.counts().waiting == 10
            machines.wire.mend()
            send(range(10, 20), source, two)
            assert receive(20, target) == list(range(20))


def test_a_limited_wire_is_not_faster_and_has_a_short_queue() -> None:
    with Machines(2, wire=True) as machines:
        one, two = machines
        machines.wire.limit(1_000_000)
        begin = time.monotonic()
        assert is_transferred(500_000, one, two)
        assert time.monotonic() - begin >= 0.45
        machines.wire.limit(10_000)
        with udp(one) as source:
            for _ in range(10):
                source.sendto(bytes(1000), (two.address, 5000))
            eventually(lambda: machines.wire.counts().overflowed > 0)


def test_a_killed_machine_is_no_harm_to_the_wire_of_the_others() -> None:
    with Machines(3, wire=True) as machines:
        one, two, three = machines
        three.kill()
        with udp(one) as source:
            send(range(5), source, three)
        assert is_transferred(1_000_000, one, two)


def test_a_wire_whose_program_has_ended_says_so() -> None:
    with Machines(2, wire=True) as machines:
        machines.middle.end()
        with pytest.raises(AssertionError, match="the wire's program does not answer"):
            machines.wire.cut()
