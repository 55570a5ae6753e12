"""What is so of tensors between the nodes of a cluster, each on a machine of its own.

`tests/python/connectors/test_ray_nodes.py` runs it, on the node that has the resource "here".
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import ray
import torch

import tensorbus as tb
from support.bridge.bridges import STATUS_TOPIC
from support.harness import PATIENCE
from support.in_ray.checks import (
    SIZE,
    Receiver,
    Source,
    layout_of,
    many_tensors,
    plain_arrays,
    same,
    total,
)


class Both(Source, Receiver):
    """An actor that makes tensors and receives them."""


@cache
def actor(node: str) -> Any:
    options = {"num_cpus": 0, "resources": {node: 1}, "enable_tensor_transport": True}
    return ray.remote(**options)(Both).remote()


def check_tensors_come_through_the_object_store() -> None:
    here, there = actor("here"), actor("there")
    for source, receiver in ((here, there), (there, here)):
        for method, make in ((source.tensors, many_tensors), (source.arrays, plain_arrays)):
            ref, expected = method.remote(make), layout_of(make())
            same(ray.get(receiver.calls.remote(layout_of, ref)), expected)
            same(ray.get(receiver.gets.remote(layout_of, [ref], None)), expected)
            same(layout_of(ray.get(ref)), expected)
    mine = ray.put(torch.ones(SIZE), _tensor_transport="TENSORBUS")
    assert ray.get(here.calls.remote(total, mine)) == SIZE
    with pytest.raises(ray.exceptions.RayError, match="only through bridges"):
        ray.get(there.calls.remote(total, mine))


def check_tensors_come_through_bridges_once_for_a_machine() -> None:
    wait_for_the_bridge()
    here, there = actor("here"), actor("there")
    before = fetched()
    ref = there.on_the_bus.remote()
    for _ in range(2):
        assert ray.get(here.calls.remote(total, ref)) == 3 * SIZE
        assert float(ray.get(ref).sum()) == 3 * SIZE
    assert fetched() == before + 1
    mine = ray.put(torch.ones(SIZE), _tensor_transport="TENSORBUS")
    before = ray.get(there.calls.remote(fetched))
    assert ray.get(there.calls.remote(total, mine)) == SIZE
    assert ray.get(there.calls.remote(fetched)) == before + 1


_kept: list[Any] = []


def check_objects_are_on_both_nodes() -> None:
    here, there = actor("here"), actor("there")
    _kept[:] = [there.on_the_bus.remote(), here.on_the_bus.remote()]
    _kept.append(ray.get(_kept[0]))
    ray.wait(_kept[1:2])


def check_a_lost_node_is_an_error() -> None:
    here, there = actor("here"), actor("there")
    lost, mine, received = _kept
    for get in (
        lambda: ray.get(lost),
        lambda: ray.get(here.calls.remote(total, lost)),
        lambda: ray.get(here.gets.remote(total, [lost], None)),
        lambda: ray.get(there.calls.remote(total, mine)),
    ):
        with pytest.raises(ray.exceptions.RayError, match="its node has died"):
            get()
    assert float(received.sum()) == 3 * SIZE
    assert ray.get(here.calls.remote(total, mine)) == 3 * SIZE


def wait_for_the_bridge() -> None:
    with tb.Subscriber[Any](STATUS_TOPIC, timeout=PATIENCE) as statuses:
        for status in statuses:
            if any(peer["connected"] for peer in status.data["peers"]):
                return


def fetched() -> int:
    """Shares that the bridge of this machine has fetched; of a status that comes after the call."""
    with tb.Subscriber[Any](STATUS_TOPIC, timeout=PATIENCE) as statuses:
        statuses.receive()
        count: int = statuses.receive().data["shares"]["fetched"]
        return count
