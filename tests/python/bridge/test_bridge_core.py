"""What the core has for bridges: docs/internals/bridge_protocol.md."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE
from tensorbus import _core
from tensorbus._base.participant import participant
from tensorbus._topics.sample import sample_of

ORIGIN = ("robot", "00112233445566778899aabbccddeeff.7")
FIELDS = b"\xc4\x00"  # MessagePack of no bytes


@contextmanager
def mirror(topic: str = "topic", **options: Any) -> Iterator[_core.Publisher]:
    defaults = {"depth": 8, "history": 0, "reliable": False, "lag_timeout": None, "origin": ORIGIN}
    publisher = _core.Publisher(topic, participant(), shared=False, **defaults | options)
    try:
        yield publisher
    finally:
        publisher.close()


@contextmanager
def export(publisher: str = "", topic: str = "topic") -> Iterator[_core.Subscriber]:
    subscriber = _core.Subscriber(
        topic,
        participant(),
        depth=0,
        max_held=64,
        reliable=True,
        end_of_stream=False,
        spin=0.0,
        access=_core.Access.READ,
        publisher=publisher,
    )
    try:
        yield subscriber
    finally:
        subscriber.close()


def received(subscriber: _core.Subscriber) -> _core.Sample:
    sample = subscriber.receive(PATIENCE)
    assert isinstance(sample, _core.Sample), sample
    return sample


def readable(fd: int, timeout: float = PATIENCE) -> bool:
    return bool(select.select([fd], [], [], timeout)[0])


def carried(sample: _core.Sample, to: _core.Publisher, sequence: int) -> int | _core.Outcome:
    """Publishes the sample again, from its bytes alone."""
    ranges, total, tensors = sample.ranges()
    loan = to.loan_bytes(total, PATIENCE)
    offset = 0
    for part in ranges:
        offset = -(-offset // 64) * 64
        loan[offset : offset + len(part)] = part
        offset += len(part)
    assert offset == total == len(loan)
    outgoing = _core.Outgoing()
    for dtype, shape, strides, flags, at in tensors:
        outgoing.add_at(loan, dtype, shape, strides, flags, at)
    return to.publish_as(
        outgoing, sample.fields, sample.fingerprint, sequence, sample.timestamp_ns, PATIENCE
    )


def test_a_sample_says_where_a_bridge_brought_it_from() -> None:
    with mirror(history=1) as publisher, tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        publisher.publish_as(_core.Outgoing(), FIELDS, 0, 7, 1234, None)
        sample = subscriber.receive()
        assert sample.header.origin == tb.Origin(*ORIGIN)
        assert (sample.header.sequence, sample.header.timestamp_ns) == (7, 1234)
        assert sample.copy().header.origin == sample.header.origin
        with tb.Publisher("topic") as local:
            assert subscriber.wait_for_publishers(2)
            local.publish(b"here")
            assert subscriber.receive().header.origin is None


def test_topics_are_listed_with_the_machines_that_publish_them() -> None:
    with mirror(history=3, reliable=True) as publisher, tb.Publisher("topic"):
        (topic,) = tb.list_topics()
        assert {one.machine for one in topic.publishers} == {"", "robot"}
        for one in topic.publishers:
            with export(one.publisher) as subscriber:
                assert subscriber.wait_for_publishers(1, PATIENCE) is _core.Outcome.DONE
        (found,) = (one for one in _core.list_publishers(participant()) if one.machine)
        assert found.publisher == f"{participant().id}.{publisher.number}"
        assert (found.origin, found.depth, found.history, found.reliable) == (ORIGIN[1], 8, 3, True)


def test_an_export_is_joined_to_its_publisher_alone() -> None:
    with tb.Publisher("topic", history=1) as first, tb.Publisher("topic", history=1) as second:
        first.publish(b"first")
        second.publish(b"second")
        with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
            names = {subscriber.receive().header.publisher for _ in range(2)}
        for name in names:
            with export(name) as alone:
                sample = received(alone)
                assert f"{sample.publisher}.{sample.publisher_number}" == name
                assert alone.try_receive() is _core.Outcome.TIMED_OUT
    with pytest.raises(tb.InvalidArgument, match="no publisher has the name"), export("camera"):
        pass


@pytest.mark.parametrize(
    "origin", [("", ORIGIN[1]), ("robot", ""), ("robot", "camera"), ("r" * 256, ORIGIN[1])]
)
def test_a_mirror_needs_a_machine_and_a_publisher(origin: tuple[str, str]) -> None:
    with pytest.raises(tb.InvalidArgument, match="origin: "), mirror(origin=origin):
        pass


def test_numbers_that_were_left_out_are_missed() -> None:
    with mirror() as publisher, export() as subscriber:
        assert subscriber.wait_for_publishers(1, PATIENCE) is _core.Outcome.DONE
        for sequence in (0, 4, 5):
            assert publisher.publish_as(_core.Outgoing(), FIELDS, 0, sequence, 1, None) == 1
        assert [received(subscriber).sequence for _ in range(3)] == [0, 4, 5]
        assert subscriber.stats["missed"] == 3
        with pytest.raises(tb.InvalidArgument, match="sequence=5: expected 6"):
            publisher.publish_as(_core.Outgoing(), FIELDS, 0, 5, 1, None)


def test_a_mirror_restarts_when_nobody_subscribes() -> None:
    with mirror(history=2) as publisher:
        publisher.publish_as(_core.Outgoing(), FIELDS, 0, 9, 1, None)
        with export() as subscriber:
            assert received(subscriber).sequence == 9
            assert not publisher.restart(2)
        fd = participant().subscribers_fileno()
        while publisher.subscribers:
            assert readable(fd)
            participant().take_changed_publishers()
        assert publisher.restart(2)
        publisher.publish_as(_core.Outgoing(), FIELDS, 0, 2, 1, None)
        with export() as subscriber:
            assert received(subscriber).sequence == 2


def test_a_stream_goes_on_when_a_mirror_is_broken_off() -> None:
    with (
        tb.Subscriber("topic", end_of_stream=True, timeout=PATIENCE) as subscriber,
        mirror() as first,
    ):
        assert subscriber.wait_for_publishers(1)
        first.publish_as(_core.Outgoing(), FIELDS, 0, 0, 1, None)
        first.break_off()
        with mirror() as second:
            assert subscriber.receive().header.sequence == 0
            second.wait_for_subscribers(1, PATIENCE)
            second.publish_as(_core.Outgoing(), FIELDS, 0, 1, 1, None)
            assert subscriber.receive().header.sequence == 1
        assert list(subscriber) == []


def test_one_descriptor_tells_of_the_subscribers_of_all_mirrors() -> None:
    home = participant()
    fd = home.subscribers_fileno()
    home.take_changed_publishers()
    with mirror("one") as one, mirror("two"):
        with export(topic="one"):
            assert readable(fd)
            assert home.take_changed_publishers() == [one.number]
            assert one.subscribers == 1
            assert not readable(fd, 0)
        assert readable(fd)
        assert home.take_changed_publishers() == [one.number]
        assert one.subscribers == 0


def test_one_descriptor_tells_of_the_publishers_of_a_domain() -> None:
    home = participant()
    fd = home.domain_fileno()

    def topics() -> list[str]:
        home.clear_domain_fileno()
        return [topic.name for topic in tb.list_topics()]

    with mirror("one"):
        while topics() != ["one"]:
            assert readable(fd)
    while topics():
        assert readable(fd)


def test_a_sample_is_the_same_after_its_bytes_were_carried() -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(24.0).reshape(4, 6)
    message = {
        "whole": base,
        "column": base[:, 2],  # overlaps
        "flipped": np.arange(9, dtype=np.int16)[::-2],  # negative strides
        "empty": np.zeros((0, 3)),
        "scalar": np.float32(2.5) * np.ones(()),
        "number": 5,
    }
    with (
        tb.Publisher("source", history=1) as source,
        export(topic="source") as exported,
        mirror() as target,
        tb.Subscriber("topic", timeout=PATIENCE) as subscriber,
    ):
        source.publish(message)
        assert subscriber.wait_for_publishers(1)
        original = received(exported)
        assert carried(original, target, 3) == 1
        sample = subscriber.receive()
        shown, expected = sample.data, sample_of(original, None, None).data
        assert list(shown) == list(message)
        for name in ("flipped", "empty", "scalar"):
            assert np.array_equal(shown[name], expected[name])
            assert shown[name].dtype == expected[name].dtype
        assert torch.equal(shown["whole"], base)
        assert torch.equal(shown["column"], base[:, 2])
        assert shown["number"] == 5
        # What was one memory is one: of 24 and of 9 elements, and nothing was copied.
        assert original.ranges()[1] < 200
        assert target.stats["bytes_copied"] == 0


def test_the_bytes_of_a_sample_keep_its_lease() -> None:
    with tb.Publisher("topic", depth=1) as publisher, export() as subscriber:
        assert publisher.wait_for_subscribers(1, PATIENCE)
        publisher.publish(np.full(1000, 7))
        (part,), total, _ = received(subscriber).ranges()
        assert part.readonly
        assert total == len(part) == 8000
        assert subscriber.stats["held"] == 1
        assert bytes(part) == np.full(1000, 7).tobytes()
        del part
        assert subscriber.stats["held"] == 0


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((101,), (1,), 0),
        ((10,), (1,), 91),
        ((10,), (1,), -1),
        ((10,), (-1,), 8),
        ((2, 2), (2**62, 1), 0),
        ((2**40, 2**40), (1, 1), 0),
        ((-1,), (1,), 0),
        ((2,), (1, 1), 0),
        ((1,) * 65, (1,) * 65, 0),
        ((1,), (1,), 2**63 - 1),
        ((1,), (1,), -(2**63)),
    ],
)
def test_no_tensor_reaches_outside_of_a_loan(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    with mirror() as publisher:
        loan = publisher.loan_bytes(100, None)
        with pytest.raises(tb.InvalidArgument):
            _core.Outgoing().add_at(loan, "uint8", shape, strides, 0, offset)
        assert _core.Outgoing().add_at(loan, "uint8", (10,), (-1,), 0, 9) == 0
        assert _core.Outgoing().add_at(loan, "uint8", (0, 5), (7, 7), 0, offset) == 0


def test_only_known_tensors_lie_in_a_loan() -> None:
    with mirror() as publisher:
        loan = publisher.loan_bytes(8, None)
        with pytest.raises(tb.Unsupported, match="dtype text"):
            _core.Outgoing().add_at(loan, "text", (1,), (1,), 0, 0)
        with pytest.raises(tb.Unsupported, match="flags"):
            _core.Outgoing().add_at(loan, "uint8", (1,), (1,), 1, 0)
        for other in (memoryview(bytearray(8)), bytearray(8)):
            with pytest.raises(tb.InvalidArgument, match="loan_bytes"):
                _core.Outgoing().add_at(other, "uint8", (1,), (1,), 0, 0)  # type: ignore[arg-type]
