"""The program in the middle of a wire: forwards IP packets between machines, and does them harm.

    python relay.py COMMANDS SEED

COMMANDS is the descriptor of a Unix socket of packets. Each is a command in JSON and is answered,
see `support.bridge.wire`. The program ends with the other end of this socket.

In each machine it has a TUN device: what the kernel there sends comes here by `read`, a packet at a
time, and what is written here is received there. The kernel cuts its data into packets as late as
it can, as it does for a network card: a packet has up to 64 KiB and no checksum, which nobody needs
here. Where a fault should meet single packets, as loss does, the kernel cuts them before.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
import sys
import time
from typing import Any

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0  # linux/if_tun.h
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
CHECKSUM, SEGMENTS = 0x01, 0x02 | 0x04 | 0x20 | 0x40  # TUN_F_CSUM; TSO and USO, for IPv4 and IPv6
CLONE_NEWNET = 0x40000000

HEADER = 10  # bytes of a struct virtio_net_hdr before each packet
TARGET = slice(HEADER + 16, HEADER + 20)  # the address that an IPv4 packet goes to
LARGEST = HEADER + (1 << 16)
AT_ONCE = 64  # packets of one machine before the next machine's turn
MAX_WAITING = 64 << 20  # bytes of one direction
LONGEST_QUEUE = 0.2  # seconds, of a limited direction


class Direction:
    """From one machine to another."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self.delay = self.jitter = self.loss = 0.0
        self.rate: float | None = None  # bytes a second
        self.cut = self.stalled = False
        self.waiting: list[tuple[float, int, bytes]] = []  # when it is due, its number; a heap
        self.bytes_waiting = 0
        self.free_at = 0.0  # when a limited direction has sent all that waits
        self.taken = 0
        self.last_number = 0
        self.counts = dict.fromkeys(("delivered", "lost", "cut", "overflowed", "reordered"), 0)

    @property
    def needs_single_packets(self) -> bool:
        return self.loss > 0 or self.jitter > 0 or self.rate is not None

    def set(self, faults: dict[str, Any]) -> None:
        vars(self).update(faults)
        if not (
            self.delay or self.jitter or self.rate
        ):  # what waits is due, in the order of sending
            self.waiting = [(0.0, number, packet) for _, number, packet in self.waiting]
            heapq.heapify(self.waiting)
            self.free_at = 0.0

    def take(self, packet: bytes, now: float, target: int) -> None:
        """A packet on its way to the device `target`."""
        self.taken += 1
        if self.cut:
            self.counts["cut"] += 1
        elif self.loss and self.chance.random() < self.loss:
            self.counts["lost"] += 1
        elif self.waiting or self.stalled or self.delay or self.jitter or self.rate:
            self._queue(packet, now)
        else:
            self._write(packet, self.taken, target)

    def deliver(self, now: float, target: int) -> None:
        """What is due."""
        while not self.stalled and self.waiting and self.waiting[0][0] <= now:
            _, number, packet = heapq.heappop(self.waiting)
            self.bytes_waiting -= len(packet)
            if self.cut:
                self.counts["cut"] += 1
            else:
                self._write(packet, number, target)

    def drop_all(self) -> None:
        self.counts["lost"] += len(self.waiting)
        self.waiting.clear()
        self.bytes_waiting = 0

    def due(self) -> float | None:
        return self.waiting[0][0] if self.waiting and not self.stalled else None

    def _queue(self, packet: bytes, now: float) -> None:
        begins = max(now, self.free_at) if self.rate else now
        if begins - now > LONGEST_QUEUE or self.bytes_waiting + len(packet) > MAX_WAITING:
            self.counts["overflowed"] += 1
            return
        if self.rate:
            begins = self.free_at = begins + (len(packet) - HEADER) / self.rate
        due = begins + self.delay + self.jitter * self.chance.random()
        self.bytes_waiting += len(packet)
        heapq.heappush(self.waiting, (due, self.taken, packet))

    def _write(self, packet: bytes, number: int, target: int) -> None:
        try:
            os.write(target, packet)
        except OSError:  # the device is down, or gone
            self.counts["lost"] += 1
            return
        self.counts["delivered"] += 1
        if number < self.last_number:
            self.counts["reordered"] += 1
        self.last_number = max(number, self.last_number)


class Relay:
    def __init__(self, commands: socket.socket, seed: str) -> None:
        self._commands = commands
        self._seed = seed
        self._devices: dict[int, int] = {}  # of each machine
        self._machines: dict[bytes, int] = {}  # by address
        self._directions: dict[tuple[int, int], Direction] = {}
        self._ready = select.epoll()
        self._ready.register(commands, select.EPOLLIN)

    def run(self) -> None:
        while True:
            ready = {descriptor for descriptor, _ in self._ready.poll(self._until_due())}
            if self._commands.fileno() in ready and not self._obey():
                return
            now = time.monotonic()
            for machine, device in list(self._devices.items()):
                if device in ready:
                    self._forward(machine, device, now)
            for (_, target), direction in self._directions.items():
                if target in self._devices:
                    direction.deliver(now, self._devices[target])

    def _until_due(self) -> float | None:
        due = [at for each in self._directions.values() if (at := each.due()) is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _forward(self, machine: int, device: int, now: float) -> None:
        for _ in range(AT_ONCE):
            try:
                packet = os.read(device, LARGEST)
            except BlockingIOError:
                return
            except OSError:  # the device is gone
                self._ready.unregister(device)
                return
            for target in self._targets(machine, packet):
                self._directions[machine, target].take(packet, now, self._devices[target])

    def _targets(self, machine: int, packet: bytes) -> list[int]:
        if packet[HEADER] >> 4 != 4:
            return []  # IPv6 has no addresses here
        address = packet[TARGET]
        if self._machines.get(address, machine) != machine:
            return [self._machines[address]]
        if address[0] >= 224 or address[3] == 255:  # multicast, broadcast
            return [other for other in self._devices if other != machine]
        return []

    def _obey(self) -> bool:
        """Does what a command says; false if there are no more."""
        text, descriptors, _, _ = socket.recv_fds(self._commands, 1 << 16, 1)
        if not text:
            return False
        command = json.loads(text)
        answer = None
        if command["do"] == "join":
            self._join(command["machine"], command["address"], descriptors[0])
        elif command["do"] == "leave":
            self._leave(command["machine"])
        elif command["do"] == "set":
            for direction in self._named(command):
                direction.set(command["faults"])
            self._set_offload()
        else:
            answer = self._count(self._named(command))
        self._commands.send(json.dumps(answer).encode())
        return True

    def _named(self, command: dict[str, Any]) -> list[Direction]:
        source, target = command["source"], command["target"]
        return [
            direction
            for key, direction in self._directions.items()
            if source in (None, key[0]) and target in (None, key[1])
        ]

    def _count(self, directions: list[Direction]) -> dict[str, int]:
        total = {"waiting": sum(len(each.waiting) for each in directions)}
        for each in directions:
            for what, count in each.counts.items():
                total[what] = total.get(what, 0) + count
        return total

    def _join(self, machine: int, address: str, namespace: int) -> None:
        device = open_device(namespace)
        self._devices[machine] = device
        self._machines[socket.inet_aton(address)] = machine
        self._ready.register(device, select.EPOLLIN)
        for other in self._devices:
            for key in ((machine, other), (other, machine)):
                if machine != other and key not in self._directions:
                    self._directions[key] = Direction(f"{self._seed} {key}")
        self._set_offload()

    def _leave(self, machine: int) -> None:
        os.close(self._devices.pop(machine))
        self._machines = {key: each for key, each in self._machines.items() if each != machine}
        for (_, target), direction in self._directions.items():
            if target == machine:
                direction.drop_all()

    def _set_offload(self) -> None:
        for machine, device in self._devices.items():
            outgoing = [each for key, each in self._directions.items() if key[0] == machine]
            single = any(each.needs_single_packets for each in outgoing)
            fcntl.ioctl(device, TUNSETOFFLOAD, CHECKSUM | (0 if single else SEGMENTS))


def open_device(namespace: int) -> int:
    """The TUN device `wire0` in a network namespace; closes the descriptor of the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if libc.setns(namespace, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        request = struct.pack("16sH22x", b"wire0", IFF_TUN | IFF_NO_PI | IFF_VNET_HDR)
        fcntl.ioctl(device, TUNSETIFF, request)
        if libc.setns(own, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(own)
        os.close(namespace)
    return device


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as commands:
        Relay(commands, sys.argv[2]).run()
