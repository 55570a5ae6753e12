"""Topics between machines: two domains of this host, each with a bridge in a process of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridges import Machine, Relay, appears, machines, two_machines
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell

torch = pytest.importorskip("torch")


@dataclass
class Frame(tb.Message):
    image: np.ndarray
    id: int


@dataclass
class Other(tb.Message):
    text: str


Pair = tuple[Machine, Machine]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with two_machines(tmp_path) as machines_of_it:
        yield machines_of_it


def test_a_message_crosses_with_all_that_it_has(pair: Pair) -> None:
    here, there = pair
    with tb.Publisher[Any]("image", history=1, domain=here.domain) as publisher:
        appears(there, "image")
        base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
        message = {
            "strided": base.t()[1:4],
            "grad": torch.ones(3, requires_grad=True),
            "array": np.arange(5, dtype=np.int16)[::-1],
            "nested": [1, "two", (3.0, None), b"four"],
            "empty": torch.empty(0, 3),
        }
        with tb.Subscriber[Any]("image", domain=there.domain, timeout=PATIENCE) as subscriber:
            publisher.publish(message)
            sample = subscriber.receive()
            got = sample.data
    assert torch.equal(got["strided"], base.t()[1:4])
    assert got["strided"].stride() == message["strided"].stride()
    assert got["grad"].requires_grad
    assert isinstance(got["array"], np.ndarray)
    assert got["array"].tolist() == [4, 3, 2, 1, 0]
    assert got["nested"] == [1, "two", (3.0, None), b"four"]
    assert got["empty"].shape == (0, 3)
    assert sample.header.origin is not None
    assert sample.header.origin.machine == "here"


@pytest.mark.parametrize("size", [1, 60_000, 70_000, 3_000_000])
def test_bytes_of_every_size_arrive_as_they_were(pair: Pair, size: int) -> None:
    here, there = pair
    with tb.Publisher[Any]("bytes", reliable=True, domain=here.domain) as publisher:
        appears(there, "bytes")
        with tb.Subscriber[Any]("bytes", domain=there.domain, timeout=PATIENCE) as subscriber:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for seed in range(5):
                sent = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
                publisher.publish(sent)
                assert np.array_equal(subscriber.receive().data, sent)


def test_small_and_large_samples_keep_their_order(pair: Pair) -> None:
    here, there = pair
    with tb.Publisher[Any]("mixed", reliable=True, domain=here.domain) as publisher:
        appears(there, "mixed")
        with tb.Subscriber[Any]("mixed", domain=there.domain, timeout=PATIENCE) as subscriber:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            sizes = [10, 10, 2_000_000, 10, 100_000, 10, 10, 1_000_000, 10]
            got = []
            for i, size in enumerate(sizes * 4):
                publisher.publish(np.full(size, i, np.uint8))
                while (sample := subscriber.try_receive()) is not None:
                    got.append(sample)
            while len(got) < 4 * len(sizes):
                got.append(subscriber.receive())
            assert [int(sample.data[0]) for sample in got] == list(range(36))
            assert [sample.header.sequence for sample in got] == list(range(36))
            assert subscriber.stats["missed"] == 0


def test_only_what_somebody_subscribes_to_crosses_and_once_for_a_machine(pair: Pair) -> None:
    here, there = pair
    with (
        tb.Publisher[Any]("wanted", depth=16, reliable=True, domain=here.domain) as wanted,
        tb.Publisher[Any]("unwanted", domain=here.domain) as unwanted,
    ):
        appears(there, "wanted")
        appears(there, "unwanted")
        subscribers = [
            tb.Subscriber[Any]("wanted", domain=there.domain, timeout=PATIENCE) for _ in range(3)
        ]
        for subscriber in subscribers:
            assert subscriber.wait_for_publishers(timeout=PATIENCE)
        assert wanted.wait_for_subscribers(timeout=PATIENCE)
        for i in range(10):
            wanted.publish(i)
            unwanted.publish(i)
        for subscriber in subscribers:
            assert [subscriber.receive().data for _ in range(10)] == list(range(10))
        assert wanted.stats["subscribers"] == 1
        assert unwanted.stats["subscribers"] == 0
        eventually(
            lambda: (
                [(one["topic"], one["samples"]) for one in here.peer("there")["sending"]]
                == [("wanted", 10)]
            )
        )
        for subscriber in subscribers:
            subscriber.close()
        eventually(lambda: wanted.stats["subscribers"] == 0)


def test_a_late_subscriber_gets_the_history_and_a_later_one_what_is_last_then(
    pair: Pair,
) -> None:
    here, there = pair
    with tb.Publisher[Any]("map", history=2, domain=here.domain) as publisher:
        for i in range(5):
            publisher.publish(i)
        appears(there, "map")
        with tb.Subscriber[Any]("map", domain=there.domain, timeout=PATIENCE) as subscriber:
            assert [subscriber.receive().data for _ in range(2)] == [3, 4]
        eventually(lambda: publisher.stats["subscribers"] == 0)
        publisher.publish(5)
        with tb.Subscriber[Any]("map", domain=there.domain, timeout=PATIENCE) as subscriber:
            assert [subscriber.receive().data for _ in range(2)] == [4, 5]


def test_the_end_of_a_stream_is_heard_on_the_other_machine(pair: Pair) -> None:
    here, there = pair
    publisher = tb.Publisher[Any]("run", reliable=True, domain=here.domain)
    appears(there, "run")
    with tb.Subscriber[Any](
        "run", domain=there.domain, end_of_stream=True, timeout=PATIENCE
    ) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for i in range(20):
            publisher.publish(np.full(100_000, i, np.uint8))
        publisher.close()
        assert [int(sample.data[0]) for sample in subscriber] == list(range(20))


def publish_until_told(domain: str, first: int) -> None:
    with tb.Publisher[Any]("state", history=1, domain=domain) as publisher:
        publisher.publish(first)
        tell("ready")
        hear()


def test_a_killed_publisher_is_gone_there_and_another_takes_its_place(
    pair: Pair, elsewhere: Elsewhere
) -> None:
    here, there = pair
    first = elsewhere.start(publish_until_told, here.domain, 1)
    assert first.hear() == "ready"
    appears(there, "state")
    with tb.Subscriber[Any](
        "state", domain=there.domain, end_of_stream=True, timeout=PATIENCE
    ) as subscriber:
        assert subscriber.receive().data == 1
        first.kill()
        eventually(lambda: "state" not in there.topics())
        second = elsewhere.start(publish_until_told, here.domain, 2)
        assert second.hear() == "ready"
        assert subscriber.receive().data == 2, "the stream has not ended"
        second.tell()
        with pytest.raises(tb.Closed):
            subscriber.receive()


def test_types_cross_and_another_type_is_told_where_it_is_expected(pair: Pair) -> None:
    here, there = pair
    with tb.Publisher("typed", Frame, history=1, domain=here.domain) as publisher:
        publisher.publish(Frame(np.ones((2, 2)), 7))
        appears(there, "typed")
        with tb.Subscriber("typed", Frame, domain=there.domain, timeout=PATIENCE) as subscriber:
            assert subscriber.receive().data.id == 7
        with (
            tb.Subscriber("typed", Other, domain=there.domain, timeout=PATIENCE) as other,
            pytest.raises(tb.TypeMismatch),
        ):
            other.receive()


def test_a_topic_of_three_machines_is_one_topic_and_nothing_goes_around(tmp_path: Path) -> None:
    names = ("one", "two", "three")
    with machines(tmp_path, *names) as (one, two, three):
        one.start("--listen", one.address, "--connect", two.address, "--connect", three.address)
        two.start("--listen", two.address, "--connect", one.address, "--connect", three.address)
        three.start("--listen", three.address, "--connect", one.address, "--connect", two.address)
        all_machines = (one, two, three)
        for machine in all_machines:
            for name in names:
                if name != machine.name:
                    machine.wait_for_peer(name)
        publishers = [
            tb.Publisher[Any]("ring", depth=16, reliable=True, domain=machine.domain)
            for machine in all_machines
        ]
        subscribers = [
            tb.Subscriber[Any]("ring", domain=machine.domain, timeout=PATIENCE)
            for machine in all_machines
        ]
        for subscriber in subscribers:
            assert subscriber.wait_for_publishers(3, timeout=PATIENCE)
        for publisher in publishers:
            assert publisher.wait_for_subscribers(3, timeout=PATIENCE)
        for publisher, name in zip(publishers, names, strict=True):
            for i in range(10):
                publisher.publish((name, i))
        expected = sorted((name, i) for name in names for i in range(10))
        for subscriber in subscribers:
            assert sorted(subscriber.receive().data for _ in range(30)) == expected
            assert subscriber.try_receive() is None
        for publisher in publishers:
            assert publisher.stats["subscribers"] == 3


def test_nodes_of_which_a_topic_crosses_are_listed_there(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text('[export]\ndeny = ["private"]\n')
    with (
        two_machines(tmp_path, "--config", str(config)) as (here, there),
        tb.Node("camera", domain=here.domain) as camera,
        tb.Node("secret", domain=here.domain) as secret,
        tb.Node("display", domain=there.domain) as display,
    ):
        secret.create_publisher("private")
        publishers = [camera.create_publisher(topic) for topic in ("left", "private", "right")]
        display.create_publisher("shown")
        assert tb.wait_for_node("camera", timeout=PATIENCE, domain=there.domain)
        for topic in ("left", "right"):
            appears(there, topic)
        found = [(node.name, node.machine, node.topics) for node in tb.list_nodes(there.domain)]
        assert found == [("camera", "here", ("left", "right")), ("display", "", ("shown",))]
        (remote, _) = tb.list_nodes(there.domain)
        assert remote.participant == next(
            node.participant for node in tb.list_nodes(here.domain) if node.name == "camera"
        )
        appears(here, "shown")
        publishers[0].close()
        publishers[2].close()
        eventually(lambda: len(tb.list_nodes(there.domain)) == 1)
        assert not tb.wait_for_node("camera", timeout=0.01, domain=there.domain)


def test_what_is_denied_is_not_there(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text('[export]\nallow = ["camera/*"]\ndeny = ["camera/private"]\n')
    with two_machines(tmp_path, "--config", str(config)) as (here, there):
        names = ("camera/left", "camera/private", "other")
        publishers = [tb.Publisher[Any](name, domain=here.domain) for name in names]
        appears(there, "camera/left")
        assert set(there.topics()) == {"camera/left"}
        for publisher in publishers:
            publisher.close()


def test_the_clocks_of_the_machines_are_compared(pair: Pair) -> None:
    here, _ = pair
    eventually(lambda: here.peer("there")["clock_uncertainty_ns"] is not None)
    peer = here.peer("there")
    assert abs(peer["clock_offset_ns"]) <= peer["clock_uncertainty_ns"], "it is the same clock"


def test_a_second_bridge_of_a_domain_is_refused(pair: Pair) -> None:
    here, _ = pair
    here.status()
    first = here._bridge
    here.restart()
    assert here.wait() == 2
    assert first is not None
    assert f"this domain has a bridge, process {first.pid}" in here.output
    here._bridge = first


def test_subscribers_that_come_and_go_get_whole_samples_and_end_no_connection(pair: Pair) -> None:
    here, there = pair
    stop = threading.Event()
    with tb.Publisher[Any]("flow", depth=4, domain=here.domain) as publisher:

        def publish() -> None:
            number = 0
            while not stop.is_set():
                publisher.publish(np.full(3_000_000, number % 256, np.uint8))
                number += 1
                stop.wait(0.005)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            for _ in range(4):  # each time long enough that nobody wants the topic any more
                with tb.Subscriber[Any](
                    "flow", domain=there.domain, timeout=PATIENCE
                ) as subscriber:
                    for _ in range(5):
                        data = subscriber.receive().data
                        assert (data == data[0]).all()
                eventually(lambda: publisher.stats["subscribers"] == 0)
        finally:
            stop.set()
            thread.join()
    assert "connection lost" not in here.output + there.output


def test_what_is_not_let_in_is_not_there(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text('[import]\nmachines = { "here" = ["result/*"] }\n')
    with (
        two_machines(tmp_path, "--config", str(config)) as (here, there),
        tb.Publisher[Any]("result/1", domain=here.domain),
        tb.Publisher[Any]("camera", domain=here.domain),
        tb.Publisher[Any]("command", domain=there.domain),
    ):
        appears(there, "result/1")
        appears(here, "command")
        assert set(there.topics()) == {"result/1", "command"}


def test_a_rate_leaves_samples_out_and_they_do_not_count_as_missed(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text('[[topic]]\npattern = "fast"\nmax_rate = 5.0\n')
    with (
        two_machines(tmp_path, "--config", str(config)) as (here, there),
        tb.Publisher[Any]("fast", depth=64, reliable=True, domain=here.domain) as publisher,
        tb.Subscriber[Any]("fast", domain=there.domain, timeout=PATIENCE) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        received = 0
        published = 0
        while received < 5:
            publisher.publish(published)
            published += 1
            received += subscriber.try_receive() is not None
        assert published > 5 * received
        assert subscriber.stats["missed"] == 0


def test_a_rate_in_bytes_leaves_samples_out(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text('[[topic]]\npattern = "wide"\nmax_bytes = 4e6\n')
    frame = np.zeros(1_000_000, np.uint8)
    with (
        two_machines(tmp_path, "--config", str(config)) as (here, there),
        tb.Publisher[Any]("wide", depth=64, domain=here.domain) as publisher,
        tb.Subscriber[Any]("wide", domain=there.domain, timeout=PATIENCE) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        begin = time.monotonic()
        received = 0
        while received < 6:
            publisher.publish(frame)
            time.sleep(0.01)  # a camera of 100 Hz, whose time is what is measured
            received += subscriber.try_receive() is not None
        assert time.monotonic() - begin > 0.9  # the first two may come at once


def test_what_is_compressed_arrives_whole_and_is_less(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text('[[topic]]\npattern = "dense"\ncompress = true\n')
    relay = Relay()
    noise = np.random.default_rng(0).integers(0, 255, 1 << 20, np.uint8)
    with (
        two_machines(tmp_path, "--config", str(config), through=relay) as (here, there),
        tb.Publisher[Any]("dense", depth=8, reliable=True, domain=here.domain) as publisher,
        tb.Subscriber[Any]("dense", depth=8, domain=there.domain, timeout=PATIENCE) as subscriber,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        before = relay.passed
        for data in (np.arange(8_000_000) // 1000, np.zeros(9000, np.uint8), noise):
            publisher.publish(data)
            assert (subscriber.receive().data == data).all()
        assert noise.nbytes < relay.passed - before < 8_000_000
    relay.close()


@pytest.mark.parametrize("data", [np.zeros(0), {"a": np.zeros((0, 3)), "b": 1}, {}, None, "text"])
def test_what_has_no_bytes_crosses(pair: Pair, data: Any) -> None:
    here, there = pair
    with (
        tb.Publisher[Any]("empty", history=1, domain=here.domain) as publisher,
        tb.Subscriber[Any]("empty", domain=there.domain, timeout=PATIENCE) as subscriber,
    ):
        publisher.publish(data)
        got = subscriber.receive().data
    assert repr(got) == repr(data)
