"""Tensors between two nodes of Ray, which have different machines: networks, processes, files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from support.bridge.machines import Machine, Machines
from support.harness import here_first
from support.in_ray.driver import SETTINGS, Driver

pytestmark = [
    pytest.mark.slow,  # two nodes of Ray and their workers start
    pytest.mark.machines,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed"),
]

MODULE = "support.in_ray.checks_of_nodes"
QUICK = {  # how soon a node that does not answer is dead
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
}


class Cluster(NamedTuple):
    driver: Driver
    here: Machine
    there: Machine


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("ray")
    # A short path, for Ray's sockets.
    with (
        TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as files,
        Machines(2) as (here, there),
    ):
        address = f"{here.address}:6379"
        head = start(here, "here", files, "--head", "--port=6379", "--include-dashboard=false")
        assert head.wait() == 0
        other = start(there, "there", files, f"--address={address}")
        driver = Driver(folder, address, here)
        assert other.wait() == 0
        yield Cluster(driver, here, there)
        driver.kill()  # its own end waits for the lost node


def start(machine: Machine, name: str, files: str, *options: str) -> subprocess.Popen[bytes]:
    """Starts a node, which is up when the program has ended."""
    return machine.run(
        [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", *options),
            *("--num-cpus=2", f'--resources={{"{name}": 2}}', "--object-store-memory=100000000"),
            f"--node-ip-address={machine.address}",
        ],
        env={**here_first(), **SETTINGS, **QUICK, "RAY_TMPDIR": files},
    )


def test_without_bridges_tensors_come_through_the_object_store(cluster: Cluster) -> None:
    cluster.driver.run(MODULE, "check_tensors_come_through_the_object_store")


def test_with_bridges_tensors_come_through_them_once_for_a_machine(cluster: Cluster) -> None:
    bridge = [sys.executable, "-m", "tensorbus", "bridge", "--trust-network", "--timeout=2"]
    address = f"{cluster.here.address}:7447"
    cluster.here.run([*bridge, "--listen", address])
    cluster.there.run([*bridge, "--connect", address])
    cluster.driver.run(MODULE, "check_tensors_come_through_bridges_once_for_a_machine")


def test_what_was_on_a_lost_node_is_an_error(cluster: Cluster) -> None:
    cluster.driver.run(MODULE, "check_objects_are_on_both_nodes")
    cluster.there.kill()  # the last test of this file
    cluster.driver.run(MODULE, "check_a_lost_node_is_an_error")
