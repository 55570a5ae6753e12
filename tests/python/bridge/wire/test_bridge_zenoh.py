"""Bridges that meet on a network of Zenoh, behind a router of the test's own."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.bridge.bridges import Machine, Relay, appears, free_port, machines
from support.harness import PATIENCE, eventually

np = pytest.importorskip("numpy")
zenoh = pytest.importorskip("zenoh")


@pytest.fixture
def router() -> Iterator[int]:
    """The port of a Zenoh router."""
    port = free_port()
    config = zenoh.Config()
    settings: dict[str, Any] = {
        "mode": "router",
        "listen/endpoints": [f"tcp/127.0.0.1:{port}"],
        "scouting/multicast/enabled": False,
    }
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config):
        yield port


def config_of(port: int, folder: Path) -> str:
    """A file for a client of the router."""
    path = folder / f"zenoh_{port}.json5"
    told = {
        "mode": "client",
        "connect": {"endpoints": [f"tcp/127.0.0.1:{port}"]},
        "scouting": {"multicast": {"enabled": False}},
    }
    path.write_text(json.dumps(told))
    return str(path)


def join(machine: Machine, port: int, folder: Path, *options: str) -> None:
    machine.start("--zenoh", config_of(port, folder), *options, trust=False)


def exchange(here: Machine, there: Machine, topic: str) -> None:
    """Large and small samples cross, in order."""
    with tb.Publisher[Any](topic, reliable=True, domain=here.domain) as publisher:
        appears(there, topic)
        with tb.Subscriber[Any](topic, domain=there.domain, timeout=PATIENCE) as subscriber:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(6):
                publisher.publish(np.full([4, 1_000_000][number % 2], number, np.float32))
            for number in range(6):
                sample = subscriber.receive()
                assert (sample.data == number).all()
                assert sample.header.sequence == number
                assert sample.header.origin.machine == here.name


def test_bridges_of_a_fleet_find_each_other(tmp_path: Path, router: int) -> None:
    with machines(tmp_path, "one", "two", "three") as (one, two, three):
        join(one, router, tmp_path)
        join(two, router, tmp_path)
        join(three, router, tmp_path, "--fleet", "another")
        one.wait_for_peer("two")
        two.wait_for_peer("one")
        exchange(one, two, "there")
        exchange(two, one, "back")
        assert one.peer("three") is None
        assert three.status()["peers"] == []


def test_a_bridge_that_is_killed_is_found_again(tmp_path: Path, router: int) -> None:
    with machines(tmp_path, "one", "two") as (one, two):
        for machine in (one, two):
            join(machine, router, tmp_path)
        one.wait_for_peer("two")
        two.kill()
        two.restart()
        two.wait_for_peer("one")
        exchange(one, two, "topic")


def test_a_cut_between_a_bridge_and_the_router_costs_a_reliable_topic_nothing(
    tmp_path: Path, router: int
) -> None:
    relay = Relay()
    relay.target = router
    with machines(tmp_path, "one", "two") as (one, two):
        join(one, router, tmp_path)
        join(two, relay.port, tmp_path)
        one.wait_for_peer("two")
        with tb.Publisher[Any]("topic", depth=64, reliable=True, domain=one.domain) as publisher:
            appears(two, "topic")
            with tb.Subscriber[Any](
                "topic", depth=64, domain=two.domain, timeout=PATIENCE
            ) as subscriber:
                assert publisher.wait_for_subscribers(timeout=PATIENCE)
                for number in range(30):
                    if number == 10:
                        relay.cut()
                    if number == 20:
                        relay.mend()
                    publisher.publish(np.full(300_000, number, np.float32), timeout=PATIENCE)
                for number in range(30):
                    assert (subscriber.receive().data == number).all()
                assert subscriber.stats.missed == 0
    relay.close()


def test_nonsense_of_a_stranger_ends_its_connection_only(tmp_path: Path, router: int) -> None:
    with machines(tmp_path, "one", "two") as (one, two):
        join(one, router, tmp_path)
        bridge = one.status()["bridge"]
        with zenoh.open(zenoh.Config.from_file(config_of(router, tmp_path))) as session:
            key = f"tensorbus/default/{bridge}/stranger/connection/express/there"
            publisher = session.declare_publisher(key)
            eventually(lambda: publisher.matching_status.matching)
            publisher.put(bytes(8) + b"\xff" * 5_000)  # more than a lane takes at once
            eventually(lambda: "zenoh/stranger: protocol error" in one.output)
        join(two, router, tmp_path)
        one.wait_for_peer("two")
        exchange(one, two, "topic")


def test_a_bridge_waits_for_its_router(tmp_path: Path) -> None:
    with machines(tmp_path, "one") as (one,):
        one.start("--zenoh", config_of(free_port(), tmp_path), trust=False)
        assert one.status()["peers"] == []
        one.signal(signal.SIGTERM)
        assert one.wait() == 0


def test_a_bridge_may_be_the_router(tmp_path: Path) -> None:
    port = free_port()
    path = tmp_path / "router.json5"
    path.write_text(
        json.dumps({"mode": "router", "listen": {"endpoints": [f"tcp/127.0.0.1:{port}"]}})
    )
    with machines(tmp_path, "one", "two") as (one, two):
        one.start("--zenoh", str(path), trust=False)
        join(two, port, tmp_path)
        one.wait_for_peer("two")
        exchange(one, two, "there")
        exchange(two, one, "back")


@pytest.mark.parametrize("mode", ["nonsense", "peer"])
def test_a_file_of_another_mode_is_refused(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "zenoh.json5"
    path.write_text(json.dumps({"mode": mode}))
    with machines(tmp_path, "one") as (one,):
        one.start("--zenoh", str(path), trust=False)
        assert one.wait() == 2
        assert "zenoh.json5" in one.output


def nest(path: str, value: Any) -> dict[str, Any]:
    """{"a": {"b": value}} of the path a/b."""
    for part in reversed(path.split("/")):
        value = {part: value}
    return value  # type: ignore[no-any-return]


def refused(folder: Path, config: dict[str, Any], mode: int = 0o600) -> str:
    """What a bridge says that does not start with this file of Zenoh."""
    path = folder / "zenoh.json5"
    path.write_text(json.dumps({"mode": "client", **config}))
    path.chmod(mode)
    with machines(folder, "one") as (one,):
        one.start("--zenoh", str(path), trust=False)
        assert one.wait() == 2
        return one.output


@pytest.mark.parametrize(
    "key",
    [
        "transport/link/tls/listen_private_key",
        "transport/link/tls/connect_private_key",
        "transport/auth/pubkey/private_key_file",
        "transport/auth/usrpwd/dictionary_file",
    ],
)
def test_secret_files_of_zenoh_that_others_may_read_are_refused(tmp_path: Path, key: str) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o640)
    said = refused(tmp_path, nest(key, str(secret)))
    assert f"{secret}: others may read this key; chmod 600 it" in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("transport/link/tls/listen_private_key_base64", "c2VjcmV0"),
        ("transport/link/tls/connect_private_key_base64", "c2VjcmV0"),
        ("transport/auth/pubkey/private_key_pem", "secret"),
        ("transport/auth/usrpwd", {"user": "robot", "password": "secret"}),
    ],
)
def test_a_file_of_zenoh_with_a_secret_is_private(tmp_path: Path, key: str, value: Any) -> None:
    said = refused(tmp_path, nest(key, value), mode=0o644)
    assert "zenoh.json5: others may read this file, which has a key or a password" in said


@pytest.mark.parametrize("way", ["listen", "connect"])
def test_keys_in_endpoints_of_zenoh_are_refused(tmp_path: Path, way: str) -> None:
    endpoint = "tls/127.0.0.1:1#listen_private_key=/nowhere"
    said = refused(tmp_path, nest(f"{way}/endpoints", [endpoint]))
    assert f"{way}/endpoints: keys belong into transport/link/tls" in said
