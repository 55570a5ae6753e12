"""Tensors of a GPU between machines, over the stand-in for the driver."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridge_queues import opened
from support.bridge.bridges import Machine, two_machines
from support.cuda.standin import ENVIRONMENT, Stream, needs_standin
from support.harness import PATIENCE, Elsewhere, hear, tell

pytestmark = needs_standin

BYTES = 1 << 20
Pair = tuple[Machine, Machine]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Their bridges could use the GPU."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        with two_machines(tmp_path_factory.mktemp("pair")) as machines:
            yield machines


def written(domain: str) -> Any:
    """A tensor on a GPU, all of it 7."""
    stream = Stream(1)
    memory = tb.empty(BYTES, "uint8", device="cuda:1", domain=domain)
    stream.write(memory, 7)
    stream.synchronize()
    return memory


def is_written(tensor: Any) -> bool:
    array = np.asarray(tensor)
    return array.shape == (BYTES,) and bool((array == 7).all())


def publish(domain: str) -> None:
    stream = Stream(1)
    with tb.Publisher[Any]("frames", history=1, domain=domain) as publisher:
        memory = publisher.loan(BYTES, "uint8", device="cuda:1")
        stream.write(memory, 7)
        publisher.publish({"data": memory, "on the host": np.arange(3)}, stream=stream)
        tell("published")
        hear()


def test_a_sample_arrives_in_main_memory(pair: Pair, elsewhere: Elsewhere) -> None:
    here, there = pair
    publisher = elsewhere.start(publish, here.domain, env=ENVIRONMENT)
    publisher.hear()
    with tb.Subscriber[Any]("frames", domain=there.domain, timeout=PATIENCE) as subscriber:
        got = subscriber.receive().data
        assert is_written(got["data"])
        assert got["on the host"].tolist() == [0, 1, 2]
        assert subscriber.stats["missed"] == 0
    publisher.tell()


def put(name: str, domain: str) -> None:
    tb.Queue[Any].open(name, timeout=PATIENCE, domain=domain).put(written(domain))
    tell("put")
    hear()


def test_an_item_arrives_in_main_memory(pair: Pair, name: str, elsewhere: Elsewhere) -> None:
    here, there = pair
    with tb.Queue[Any](name=name, domain=here.domain) as home:
        mirror = opened(name, there)
        for domain, getter in ((here.domain, mirror), (there.domain, home)):
            putter = elsewhere.start(put, name, domain, env=ENVIRONMENT)
            putter.hear()
            assert is_written(getter.get(timeout=PATIENCE))
            putter.tell()


def share(domain: str) -> None:
    with tb.share(written(domain), domain=domain) as shared:
        tell(str(shared.handle))
        hear()


def test_a_share_is_attached_in_main_memory(pair: Pair, elsewhere: Elsewhere) -> None:
    here, there = pair
    sharer = elsewhere.start(share, here.domain, env=ENVIRONMENT)
    handle = sharer.hear()
    assert is_written(tb.attach(handle, domain=there.domain, timeout=PATIENCE))
    sharer.tell()


def call(domain: str) -> None:
    async def ask() -> None:
        with tb.Client[Any, Any]("is_written", domain=domain) as client:
            tell(await client.call_async(written(domain), timeout=PATIENCE))

    asyncio.run(ask())


def test_a_request_arrives_in_main_memory(pair: Pair, elsewhere: Elsewhere) -> None:
    here, there = pair
    with tb.Node("server", domain=here.domain) as node:
        node.create_service("is_written", callback=is_written, mode="sync")
        thread = threading.Thread(target=node.spin)
        thread.start()
        try:
            caller = elsewhere.start(call, there.domain, env=ENVIRONMENT)
            assert caller.hear() is True
        finally:
            node.stop()
            thread.join()
