"""Bridges and networks that are cut, stall, stop and are killed: nobody else is harmed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridges import Machine, Relay, appears, machines, two_machines
from support.harness import PATIENCE, eventually

Pair = tuple[Machine, Machine]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with two_machines(tmp_path) as machines_of_it:
        yield machines_of_it


def pattern(number: int, size: int = 300_000) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)


@pytest.fixture
def relay() -> Any:
    relay = Relay()
    yield relay
    relay.close()


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_reliable_topic_loses_nothing_across_a_fault_of_the_network(
    tmp_path: Path, relay: Relay, fault: str
) -> None:
    count = 120
    with (
        two_machines(tmp_path, through=relay) as (here, there),
        tb.Publisher[Any]("data", reliable=True, domain=here.domain) as publisher,
    ):
        appears(there, "data")
        with tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)

            def publish() -> None:
                for number in range(count):
                    publisher.publish(pattern(number))

            thread = threading.Thread(target=publish)
            thread.start()
            for number in range(count):
                if number in (20, 70):
                    getattr(relay, fault)()
                    if fault == "stall":  # longer than both bridges wait
                        eventually(lambda: not here.peer("there")["connected"])
                    relay.mend()
                sample = subscriber.receive()
                assert np.array_equal(sample.data, pattern(number)), number
                assert sample.header.sequence == number
            thread.join()
            assert subscriber.stats["missed"] == 0


def test_what_a_longer_cut_has_lost_is_counted(tmp_path: Path, relay: Relay) -> None:
    with (
        two_machines(tmp_path, "--timeout", "0.2", through=relay) as (here, there),
        tb.Publisher[Any]("data", depth=2, domain=here.domain) as publisher,
    ):
        appears(there, "data")
        with tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(0)
            assert subscriber.receive().data == 0
            relay.cut()
            eventually(lambda: here.peer("there") is None)
            eventually(lambda: "data" not in there.topics())
            for number in range(1, 8):
                publisher.publish(number)
            relay.mend()
            appears(there, "data")
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(8)
            sample = subscriber.receive()
            assert (sample.data, sample.header.sequence) == (8, 8)


def test_a_bridge_that_is_killed_and_started_again_is_back(tmp_path: Path) -> None:
    with (
        two_machines(tmp_path, "--timeout", "1") as (here, there),
        tb.Publisher[Any]("data", history=1, domain=here.domain) as publisher,
    ):
        appears(there, "data")
        with tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber:
            publisher.publish(1)
            assert subscriber.receive().data == 1
            for number, machine in enumerate((there, here, there), 2):
                machine.kill()
                eventually(lambda: publisher.stats["subscribers"] == 0)
                publisher.publish(number)
                machine.restart()
                sample = subscriber.receive()
                while sample.data != number:
                    sample = subscriber.receive()
                assert sample.data == number


def only_one_peer(machine: Machine) -> None:
    eventually(lambda: len(machine.status()["peers"]) == 1)


def test_a_reliable_publisher_does_not_wait_for_a_bridge_that_was_killed_and_is_back(
    tmp_path: Path,
) -> None:
    with (
        two_machines(tmp_path, "--timeout", "300") as (here, there),
        tb.Publisher[Any]("data", reliable=True, depth=2, domain=here.domain) as publisher,
        tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        number = 0
        for machine, other in ((there, here), (here, there)):
            machine.kill()
            machine.restart()
            machine.wait_for_peer(other.name)
            only_one_peer(other)
            for _ in range(20):
                number += 1
                publisher.publish(number, timeout=PATIENCE)
            while subscriber.receive().data != number:
                pass
        assert [one.machine for one in there.topics()["data"]] == ["here"]


def test_a_stopped_bridge_there_holds_nobody_back_here(pair: Pair) -> None:
    here, there = pair
    with (
        tb.Publisher[Any]("data", depth=4, domain=here.domain) as publisher,
        tb.Subscriber[Any]("data", domain=here.domain, timeout=PATIENCE) as local,
        tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as remote,
    ):
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        there.signal(signal.SIGSTOP)
        for number in range(200):
            publisher.publish(pattern(number))
            assert np.array_equal(local.receive().data, pattern(number))
        # What the other machine may have in its hands is bounded: the rest was dropped.
        assert publisher.stats["bytes_in_flight"] < 64 << 20
        there.signal(signal.SIGCONT)
        publisher.publish(pattern(1000))
        while not np.array_equal(remote.receive().data, pattern(1000)):
            pass


def test_a_slow_subscriber_there_does_not_slow_others_down(pair: Pair) -> None:
    here, there = pair
    with (
        tb.Publisher[Any]("data", depth=4, domain=here.domain) as publisher,
        tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as fast,
        tb.Subscriber[Any]("data", domain=there.domain, depth=2, timeout=PATIENCE) as slow,
    ):
        assert slow.wait_for_publishers(timeout=PATIENCE)
        assert fast.wait_for_publishers(timeout=PATIENCE)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(50):
            publisher.publish(pattern(number))
            assert np.array_equal(fast.receive().data, pattern(number))
        assert np.array_equal(slow.receive().data, pattern(48))


def test_a_reliable_subscriber_there_that_waits_holds_its_publisher_here_and_loses_nothing(
    pair: Pair,
) -> None:
    here, there = pair
    with (
        tb.Publisher[Any]("data", depth=2, reliable=True, domain=here.domain) as publisher,
        tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as remote,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        published = 0
        with suppress(tb.Timeout):
            while published < 2000:
                publisher.publish(pattern(published), timeout=2.0)
                published += 1
        assert published < 2000
        assert published > 4
        for number in range(published):
            assert np.array_equal(remote.receive().data, pattern(number))


def test_strangers_are_cut_off_and_the_bridge_goes_on(pair: Pair) -> None:
    import socket

    here, there = pair
    garbage = [b"GET / HTTP/1.1\r\n\r\n", bytes(64), np.random.default_rng(1).bytes(1 << 20)]
    for data in garbage:
        with socket.create_connection(("127.0.0.1", here.port)) as stranger:
            stranger.settimeout(PATIENCE)
            try:
                stranger.sendall(data)
                while stranger.recv(1 << 16):
                    pass
            except ConnectionError:
                pass
    with tb.Publisher[Any]("data", history=1, domain=here.domain) as publisher:
        publisher.publish(1)
        with tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber:
            assert subscriber.receive().data == 1


def test_without_certificates_or_trust_nothing_is_started(tmp_path: Path) -> None:
    with machines(tmp_path, "here") as (here,):
        here.start("--listen", here.address, trust=False)
        assert here.wait() == 2
        assert "without certificates" in here.output


def test_what_was_published_before_a_close_crosses_after_a_cut(
    tmp_path: Path, relay: Relay
) -> None:
    with two_machines(tmp_path, through=relay) as (here, there):
        publisher = tb.Publisher[Any]("data", depth=64, reliable=True, domain=here.domain)
        with tb.Subscriber[Any](
            "data", domain=there.domain, end_of_stream=True, timeout=PATIENCE
        ) as subscriber:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(0)
            assert subscriber.receive().data == 0
            relay.stall()
            for number in range(1, 6):
                publisher.publish(number)
            publisher.close()
            relay.cut()
            relay.mend()
            assert [sample.data for sample in subscriber] == [1, 2, 3, 4, 5]
            assert subscriber.stats["missed"] == 0


def test_a_message_that_is_too_large_is_left_out_and_the_next_one_crosses(pair: Pair) -> None:
    here, there = pair
    with (
        tb.Publisher[Any]("data", reliable=True, domain=here.domain) as publisher,
        tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(bytes(2 << 20))
        publisher.publish("small")
        assert subscriber.receive().data == "small"
        assert subscriber.stats["missed"] == 1
    assert "between machines shapes and values have at most 1 MiB" in here.output


def test_a_sample_beyond_the_budget_is_thrown_away_and_the_next_one_crosses(
    tmp_path: Path,
) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text("budget = 16777216\n")
    with (
        two_machines(tmp_path, "--config", str(config)) as (here, there),
        tb.Publisher[Any]("data", reliable=True, domain=here.domain) as publisher,
        tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.zeros(20 << 20, np.uint8))
        publisher.publish(pattern(1))
        assert np.array_equal(subscriber.receive().data, pattern(1))
        assert subscriber.stats["missed"] == 1
        assert "does not fit into the budget" in there.output


def test_bridges_that_connect_to_each_other_keep_one_connection(tmp_path: Path) -> None:
    with machines(tmp_path, "one", "two") as (one, two):
        one.start("--listen", one.address, "--connect", two.address)
        two.start("--listen", two.address, "--connect", one.address)
        one.wait_for_peer("two")
        two.wait_for_peer("one")
        for _ in range(3):  # seconds
            assert len(one.status()["peers"]) == 1
        assert one.output.count("another connection") <= 1
        assert two.output.count("another connection") <= 1


def test_a_session_that_ends_before_the_answer_comes_begins_anew(
    tmp_path: Path, relay: Relay
) -> None:
    with machines(tmp_path, "here", "there") as (here, there):
        relay.target = here.port
        here.start("--listen", here.address, "--timeout", "60")
        there.start("--connect", f"127.0.0.1:{relay.port}", "--timeout", "0.2")
        there.wait_for_peer("here")
        with (
            tb.Publisher[Any]("data", history=1, domain=there.domain) as publisher,
            tb.Subscriber[Any]("data", domain=here.domain, timeout=PATIENCE) as subscriber,
        ):
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(40):
                publisher.publish(number)
                assert subscriber.receive().data == number
            relay.stall()  # HELLO of the next connection waits
            relay.drop()
            eventually(lambda: "session ended" in there.output)
            relay.mend()
            for number in range(40, 44):
                publisher.publish(number)
                while subscriber.receive().data != number:
                    pass
        assert "protocol error: BEGIN" not in here.output


class Counting:
    """A reliable topic of `here`, of which `there` misses nothing."""

    def __init__(self, here: Machine, there: Machine) -> None:
        self._publisher = tb.Publisher[Any]("data", reliable=True, domain=here.domain)
        self._subscriber = tb.Subscriber[Any]("data", domain=there.domain, timeout=PATIENCE)
        assert self._publisher.wait_for_subscribers(timeout=PATIENCE)
        self._next = 0

    def go_on(self) -> None:
        for _ in range(20):
            self._publisher.publish(self._next, timeout=PATIENCE)
            assert self._subscriber.receive().data == self._next
            self._next += 1

    def finish(self) -> None:
        self.go_on()
        assert self._subscriber.stats["missed"] == 0
        self._publisher.close()
        self._subscriber.close()


def test_a_second_address_of_a_bridge_that_is_reached_later_changes_nothing(
    tmp_path: Path, relay: Relay
) -> None:
    with machines(tmp_path, "here", "there") as (here, there):
        relay.target = here.port
        relay.cut()
        here.start("--listen", here.address)
        there.start("--connect", here.address, "--connect", f"127.0.0.1:{relay.port}")
        there.wait_for_peer("here")
        topic = Counting(here, there)
        topic.go_on()
        relay.mend()
        eventually(
            lambda: "there is another connection" in here.output or "session ended" in here.output
        )
        topic.finish()
        assert "session ended" not in here.output + there.output
        assert "connection lost" not in here.output + there.output
        assert here.output.count("there is another connection") <= 2  # it waits until a cut


def test_a_way_that_opens_later_goes_on_with_the_session(tmp_path: Path) -> None:
    relays = [Relay(), Relay()]
    with machines(tmp_path, "one", "two") as made:
        for machine, other, relay in zip(made, reversed(made), relays, strict=True):
            relay.target = other.port
            relay.cut()
            machine.start("--listen", machine.address, "--connect", f"127.0.0.1:{relay.port}")
        higher = max((0, 1), key=lambda which: made[which].status()["bridge"])
        lower = 1 - higher
        relays[higher].mend()
        made[lower].wait_for_peer(made[higher].name)
        topic = Counting(made[0], made[1])
        topic.go_on()
        before = made[lower].output.count("connected with")
        relays[lower].mend()
        eventually(lambda: made[lower].output.count("connected with") > before)
        topic.go_on()
        relays[higher].cut()  # the connection that the bridge with the lower id began stays
        topic.finish()
        for machine in made:
            assert "session ended" not in machine.output
    for relay in relays:
        relay.close()


@pytest.mark.parametrize("address", ["a..b:1", "::1:7447", "host:port", ":1"])
def test_an_address_that_is_none_is_named(tmp_path: Path, address: str) -> None:
    with machines(tmp_path, "here") as (here,):
        here.start("--connect", address)
        assert here.wait() == 2
        assert "is no address: expected host:port" in here.output
