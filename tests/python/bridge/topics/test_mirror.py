"""What a mirror does with numbers that no honest bridge sends."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import msgspec
import pytest

import tensorbus as tb
from support.harness import PATIENCE
from tensorbus._base.errors import ProtocolError
from tensorbus._base.participant import participant
from tensorbus.bridge._topics.mirror import Mirror
from tensorbus.bridge._wire.frames import Begin, PublisherEntry, TensorEntry

KEY = "00112233445566778899aabbccddeeff.7"
FIELDS = b"\xc4\x00"  # MessagePack of no bytes
TENSOR = TensorEntry("uint8", [4], [1], 0, 0)
BEGIN = Begin(0, 0, 5, 0, FIELDS, [], 0)
FAR = 2**63 - 1


def received(begin: Begin, offset: int = 0) -> tuple[int, int]:
    """A mirror gets a sample, and a good one after it: how many are bad, and the last timestamp."""

    async def run() -> tuple[int, int]:
        entry = PublisherEntry(KEY, "topic", "", "", 8, 0, True)
        mirror = Mirror("robot", entry, participant(), lambda _: None, lambda: offset)
        mirror.want(1)
        with tb.Subscriber[Any]("topic", timeout=PATIENCE) as subscriber:
            assert subscriber.wait_for_publishers(timeout=PATIENCE)
            while not mirror.subscribers:
                await asyncio.sleep(0)
            mirror.begin("express", begin)
            if begin.size:
                mirror.on_chunk("express", begin.size)
            good = msgspec.structs.replace(BEGIN, sequence=1, index=1)
            mirror.begin("express", good)
            timestamp = 0
            for _ in range(2 - mirror.bad):
                timestamp = subscriber.receive().header.timestamp_ns
        mirror.close()
        return mirror.bad, timestamp

    return asyncio.run(run())


@pytest.mark.parametrize(
    "begin",
    [
        msgspec.structs.replace(BEGIN, fingerprint=2**70),
        msgspec.structs.replace(BEGIN, tensors=[TENSOR], size=0),
        *(
            msgspec.structs.replace(BEGIN, tensors=[tensor], size=4)
            for tensor in (
                TensorEntry("uint8", [FAR], [1], 0, 0),
                TensorEntry("uint8", [4], [-FAR], 0, 0),
                TensorEntry("uint8", [4], [1], FAR, 0),
                TensorEntry("uint8", [4], [1], 0, FAR),
                TensorEntry("uint8", [-4], [1], 0, 0),
                TensorEntry("uint8", [2, 2], [1], 0, 0),
                TensorEntry("nonsense", [4], [1], 0, 0),
            )
        ),
    ],
)
def test_a_sample_of_nonsense_is_left_out_and_counted(begin: Begin) -> None:
    assert received(begin)[0] == 1


def begun(*sizes: int) -> Mirror:
    entry = PublisherEntry(KEY, "topic", "", "", 8, 0, True)
    mirror = Mirror("robot", entry, participant(), lambda _: None, lambda: 0)
    mirror.want(1)
    for index, size in enumerate(sizes):
        begin = msgspec.structs.replace(BEGIN, sequence=index, index=index, size=size)
        mirror.begin(("bulk", "express")[index % 2], begin)
    return mirror


@pytest.mark.parametrize("size", [2**40, 2**62, FAR])
def test_a_sample_larger_than_the_budget_takes_no_memory(size: int) -> None:
    mirror = begun(size)
    assert len(mirror.chunk_target("bulk", 1 << 20)) == 1 << 20
    mirror.on_chunk("bulk", 1 << 20)
    assert len(mirror.chunk_target("bulk", 1 << 20)) == 1 << 20
    mirror.close()


def test_more_than_the_credit_is_refused() -> None:
    begun(10 << 20).close()
    with pytest.raises(ProtocolError, match=r"BEGIN\.size"):
        begun(10 << 20, 10 << 20)


@pytest.mark.parametrize("offset", [FAR, -FAR, 10**18, -(10**18)])
def test_a_clock_that_is_far_off_does_no_harm(offset: int) -> None:
    bad, timestamp = received(BEGIN, offset)
    assert bad == 0
    assert timestamp == max(0, min(5 - offset, FAR))


def test_a_closed_mirror_is_freed_at_once_and_its_descriptors_with_it() -> None:
    gc.disable()  # the bridge does not know when it would run
    try:
        mirror = begun(1 << 20)  # a message is under way
        known = weakref.ref(mirror)
        mirror.close()
        del mirror
        assert known() is None
    finally:
        gc.enable()
