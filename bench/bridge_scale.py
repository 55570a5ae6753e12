"""One bridge among many machines, simulated: discovery, life signs, credits.

    python bridge_scale.py [--machines 1000] [--topics 10] [--messages 4]

All of it is the code of the bridge; only the network and the clock are simulated. Every other
machine's bridge connects to one, the hub, at the same moment: the worst that a start can be. Each
bridge of a full mesh has what the hub has. The hub's link has 1 Gbit/s and 0.5 ms in each
direction. Simulated time goes on with the network, and with the processor time of the hub for what
comes in; that of the other bridges, which have machines of their own, does not count.

Then each other machine sends messages of 64 kB to the hub at once, as fast as credits let it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import selectors
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorbus.bridge import Bridge, BridgeConfig
from tensorbus.bridge._rules import Direction, Peer, Rules
from tensorbus.bridge._streams.channel import Channel
from tensorbus.bridge._wire.frames import PublisherEntry
from tensorbus.bridge._wire.lane import Lane

RATE = 125e6  # bytes a second of the hub's link, in each direction
DELAY = 0.0005  # seconds
SOCKET = 2 << 20  # bytes of a connection that the two kernels hold
MESSAGE = 64_000  # bytes
NAMES = {2: "PUBLISHERS", 5: "CREDIT", 6: "BEGIN", 9: "PING", 10: "PONG"}  # of frames


class Selector(selectors.DefaultSelector):
    """Time jumps to what is due next."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found and timeout is not None:
            self.now += max(timeout, 0)
        return found


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = Selector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


class Link:
    """One direction of the hub's."""

    def __init__(self, loop: Loop) -> None:
        self.frames: Counter[str] = Counter()
        self.bytes = 0
        self._loop = loop
        self._free = 0.0

    def carry(self, size: int, deliver: Callable[[], None]) -> None:
        self.bytes += size
        self._free = max(self._free, self._loop.time()) + size / RATE
        self._loop.call_at(self._free + DELAY, deliver)


class SimulatedWriter:
    """One direction of a connection."""

    def __init__(self, sim: Simulation, link: Link, source: Lane, target: Lane) -> None:
        self._sim = sim
        self._link = link
        self._source = source
        self._target = target
        self._under_way = 0

    @property
    def unsent(self) -> int:
        return max(0, self._under_way - SOCKET)

    def write(self, *parts: bytes | memoryview) -> None:
        self._link.frames[NAMES.get(bytes(parts[0][4:5])[0], "other")] += 1
        data = b"".join(parts)
        self._under_way += len(data)
        self._link.carry(len(data), lambda: self._deliver(data))

    def close(self) -> None:
        pass

    def _deliver(self, data: bytes) -> None:
        was_full = self.unsent > 0
        self._under_way -= len(data)
        self._sim.receive(self._target, data)
        if was_full and not self.unsent:
            self._source.resume_writing()


class Simulation:
    def __init__(self, loop: Loop, domain: str, machines: int, topics: int) -> None:
        self.loop = loop
        self.to_hub, self.from_hub = Link(loop), Link(loop)
        self.busy = 0.0  # seconds of the hub's processor
        self._of_hub: set[Lane] = set()
        self._domain = domain
        self.hub = self._bridge(0, topics, Rules())
        none = Rules(imports=Direction(allow=()))
        self.others = [self._bridge(number, topics, none) for number in range(1, machines)]

    def _bridge(self, number: int, topics: int, rules: Rules) -> Bridge:
        name = f"machine{number}"
        config = BridgeConfig(
            name, self._domain, listen=("-:1",), trust_network=True, rules=rules, budget=1 << 30
        )
        bridge = Bridge(config)
        entries = [
            PublisherEntry(f"{bridge.id}.{topic + 1}", f"{name}/topic{topic}", "", "", 8, 0, False)
            for topic in range(topics)
        ]
        bridge._publishers = {entry.key: entry for entry in entries}
        return bridge

    async def dial(self, _: str, __: str, lane: Lane) -> None:
        await asyncio.sleep(2 * DELAY)  # as TCP does
        there = self.hub._stranger()
        self._of_hub.add(there)
        ends = {lane: (there, self.to_hub), there: (lane, self.from_hub)}

        def lose() -> None:
            for end in ends:
                self.loop.call_soon(end.connection_lost, None)

        for end, (other, link) in ends.items():
            end.begin(Peer("simulated", None), SimulatedWriter(self, link, end, other), lose)

    def receive(self, lane: Lane, data: bytes) -> None:
        begin = time.thread_time()
        rest = memoryview(data)
        while rest:
            buffer = lane.get_buffer(-1)
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            lane.buffer_updated(count)
            rest = rest[count:]
        if lane in self._of_hub:
            used = time.thread_time() - begin
            self.busy += used
            self.loop.selector.now += used

    async def until(self, is_met: Callable[[], bool], most: float) -> float:
        """Seconds until then."""
        begin = self.loop.time()
        while not is_met():
            await asyncio.sleep(0.02)
            assert self.loop.time() - begin < most, "it takes too long"
        return self.loop.time() - begin

    def used(self) -> dict[str, float]:
        """Since the last call."""
        links = {"to": self.to_hub, "from": self.from_hub}
        told: dict[str, float] = {"hub_processor_s": round(self.busy, 2)}
        for way, link in links.items():
            told |= {f"{name}_{way}_hub": count for name, count in sorted(link.frames.items())}
            told[f"bytes_{way}_hub"] = link.bytes
            link.frames.clear()
            link.bytes = 0
        self.busy = 0.0
        return told


def memory() -> int:
    """Bytes of this process."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


def say(what: str, **figures: float) -> None:
    print(json.dumps({"what": what, **figures}), flush=True)


async def simulate(sim: Simulation, topics: int, messages: int) -> None:
    hub, count = sim.hub, len(sim.others)
    before = memory()
    dialing = [
        asyncio.ensure_future(other._keep_connected("hub", sim.dial)) for other in sim.others
    ]
    sessions = hub._sessions
    seconds = await sim.until(
        lambda: sum(len(one._mirrors) for one in sessions.values()) == count * topics, 600
    )
    say(
        "discovery",
        seconds=round(seconds, 2),
        memory_of_both_ends=(memory() - before) // count,
        **sim.used(),
    )

    await asyncio.sleep(2)
    sim.used()
    await asyncio.sleep(10)
    say("10 s of nothing", **sim.used())

    received: Counter[str] = Counter()

    async def serve(channel: Channel) -> None:
        for _ in range(messages):
            await channel.receive()
            received[channel.machine] += 1

    hub._served["bench"] = serve
    for other in sim.others:
        (session,) = other._sessions.values()
        channel = session.channels.open("bench", "")
        for _ in range(messages):
            channel.send("item", fields=bytes(MESSAGE))
    seconds = await sim.until(lambda: received.total() == count * messages, 600)
    say(
        "all send at once",
        seconds=round(seconds, 2),
        seconds_of_the_link=round(count * messages * MESSAGE / RATE, 2),
        **sim.used(),
    )
    dialing.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--topics", type=int, default=10, help="of each machine")
    parser.add_argument("--messages", type=int, default=4, help="that each sends to the hub")
    options = parser.parse_args()
    logging.getLogger("tensorbus").setLevel(logging.ERROR)
    loop = Loop()
    asyncio.set_event_loop(loop)
    with tempfile.TemporaryDirectory(dir="/dev/shm", ignore_cleanup_errors=True) as folder:
        sim = Simulation(loop, folder, options.machines, options.topics)
        loop.run_until_complete(simulate(sim, options.topics, options.messages))
    os._exit(0)  # so many tasks need minutes to end


if __name__ == "__main__":
    main()
