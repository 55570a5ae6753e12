"""What the command line and the figures for Prometheus show of another machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tensorbus as tb
from support.bridge.bridges import appears, two_machines
from support.harness import PATIENCE, eventually, publishing
from support.screens.commands import Tensorbus

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")

from tensorbus._cli.bridge_status import status_of
from tensorbus._cli.collector import Figure, bridge_figures_of
from tensorbus._cli.metrics import BridgeWatch


def figures_of(watch: BridgeWatch) -> dict[str, Figure]:
    return {each.metric: each for each in bridge_figures_of(watch.status())}


def knows_the_clock(domain: str) -> bool:
    """A bridge knows that of its only peer."""
    status = status_of(domain)
    return status is not None and status["peers"][0]["clock_uncertainty_ns"] is not None


def test_a_topic_of_another_machine_names_it(tmp_path: Path, tensorbus: Tensorbus) -> None:
    with two_machines(tmp_path) as (here, there):
        domain = ("--domain", there.domain)
        with tb.Publisher("image", history=3, node="camera", domain=here.domain) as publisher:
            for _ in range(3):
                publisher.publish(b"x" * 1000)
            appears(there, "image")
            eventually(lambda: knows_the_clock(there.domain))
            listed = tensorbus("topic", "list", *domain, "--json").rows
            topics = {row["topic"]: row for row in listed}
            node = tensorbus("node", "list", *domain, "--json").row
            window = ("--count", "1", "--window", "1", "--json")
            rate = tensorbus("topic", "hz", "image", *window, *domain).row
            with publishing(publisher, b"x" * 1000):
                delay = tensorbus("topic", "delay", "image", *window, *domain).row
            echoed = tensorbus("topic", "echo", "image", "--count", "1", *domain)
            with (
                tb.Subscriber("image", domain=there.domain),
                BridgeWatch(there.domain) as watch,
            ):
                eventually(lambda: "bridge_samples" in figures_of(watch))
                figures = figures_of(watch)
    assert (topics["image"]["machines"], topics["image"]["publishers"]) == (["here"], 1)
    assert topics["tensorbus/bridge"]["machines"] == [""]
    assert (node["node"], node["machine"], node["publishes"]) == ("camera", "here", ["image"])
    assert rate["machines"] == ["here"]
    assert delay["machine"] == "here"
    assert delay["samples"] > 0
    assert 0 < delay["clock_uncertainty_ns"] < PATIENCE * 1e9
    assert re.match(r"image #\d+ from here, ", echoed.out)
    assert figures["bridge_up"].value == figures["bridge_connected"].value == 1
    assert figures["bridge_samples"].labels == ("image", "here", "receiving")
