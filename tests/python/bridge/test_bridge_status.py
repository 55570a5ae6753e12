"""What a bridge says of peers that are gone, and of another bridge of its domain."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import tensorbus as tb
from support.bridge.bridges import Machine, two_machines
from support.harness import eventually
from tensorbus.bridge import Bridge, BridgeConfig
from tensorbus.bridge._gone import GonePeers


def shown(machine: Machine) -> str:
    command = [sys.executable, "-m", "tensorbus", "bridge", "status", "--domain", machine.domain]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_peer_that_is_gone_is_named_until_it_is_back(tmp_path: Path) -> None:
    with two_machines(tmp_path, "--timeout", "0.2") as (here, there):
        assert here.status()["gone"] == []
        there.finish()
        eventually(lambda: here.peer("there") is None)
        (gone,) = here.status()["gone"]
        assert gone["machine"] == "there"
        assert gone["gone_s"] >= 0
        assert "there at 127.0.0.1:" in shown(here)
        assert "gone since 20" in shown(here)
        there.restart()
        here.wait_for_peer("there")
        assert here.status()["gone"] == []


def test_as_many_gone_peers_are_named_as_are_documented() -> None:
    gone = GonePeers()
    for number in [*range(40), 20]:
        gone.add(f"machine{number}", "127.0.0.1:1", "cut")
    names = [one["machine"] for one in gone.status()]
    assert len(names) == 32
    assert names[0] == "machine8"
    assert names[-1] == "machine20"


def test_of_two_bridges_that_start_at_once_in_a_domain_one_runs() -> None:
    async def test() -> None:
        config = BridgeConfig(name="one", listen=("127.0.0.1:0",), trust_network=True)
        first = asyncio.ensure_future(Bridge(config).run())
        second = asyncio.ensure_future(Bridge(config).run())
        with pytest.raises(tb.InvalidArgument, match="this domain has a bridge, process"):
            await second
        assert not first.done()
        first.cancel()
        await asyncio.wait([first])

    asyncio.run(test())
