"""Topics with a message type: what is sent, and what is made of what arrives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, joined, tell
from support.message_examples import Color, Detection, Everything, Pose, everything, same, typed


def test_what_does_not_fit_is_not_sent_and_the_next_is() -> None:
    with joined(**typed(Detection)) as (publisher, subscriber):
        with pytest.raises(tb.MessageError, match=r"Detection\.pose\.x: expected float"):
            publisher.publish(Detection("cup", pose=Pose("far")))  # type: ignore[arg-type]
        with pytest.raises(tb.MessageError, match=r"expected robot\.Detection, got .*Pose"):
            publisher.publish(Pose(1.0))
        with pytest.raises(tb.MessageError, match=r"expected robot\.Detection, got dict"):
            publisher.publish({"label": "cup"})
        with (
            tb.Publisher("other", Everything) as other,
            pytest.raises(tb.Unsupported, match=r"data\['whatever'\]"),
        ):
            other.publish(everything(whatever=object()))
        publisher.publish(Detection("cup"))
        assert subscriber.receive().data.label == "cup"
        assert publisher.stats["sent"] == 1


def publish_detections() -> None:
    from support.message_examples import Detection

    with tb.Publisher("topic", Detection) as publisher:
        tell("ready")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(Detection("cup"))
        hear()


def test_a_subscriber_of_another_type_is_told_both_when_it_connects(elsewhere: Elsewhere) -> None:
    @dataclass
    class Other(tb.Message, name="robot.Detection"):
        label: int

    other = elsewhere.start(publish_detections)
    assert other.hear() == "ready"
    for wait in (tb.Subscriber.receive, tb.Subscriber.wait_for_publishers):
        with tb.Subscriber("topic", Other) as subscriber:
            with pytest.raises(tb.TypeMismatch) as refusal:
                wait(subscriber, timeout=PATIENCE)
            assert "robot.Detection.label: expected int, published is str" in str(refusal.value)
            assert Detection.definition() in str(refusal.value)
            assert Other.definition() in str(refusal.value)
            with pytest.raises(tb.Timeout):
                subscriber.receive(timeout=0)
    with tb.Subscriber("topic", Detection) as subscriber:
        assert subscriber.receive(timeout=PATIENCE).data == Detection("cup")
    other.tell()
    other.finish(quietly=False)  # its log names this process
    tb.MessageType.register(Detection)  # Other may live on, and would count where none is named


def test_a_subscriber_in_an_event_loop_is_told_too() -> None:
    async def main() -> None:
        async with tb.AsyncSubscriber("topic", Pose) as subscriber:
            with (
                tb.Publisher("topic", Detection),
                pytest.raises(tb.TypeMismatch, match=r"expected robot\.Pose"),
            ):
                await asyncio.wait_for(subscriber.receive(), PATIENCE)

    asyncio.run(main())


def test_a_loan_travels_by_reference_and_a_tensor_too(torch: Any) -> None:
    @dataclass
    class Frame(tb.Message):
        image: np.ndarray
        mask: torch.Tensor
        more: list[torch.Tensor]

    with joined(**typed(Frame)) as (publisher, subscriber):
        image = publisher.loan((4, 4), dtype="uint8")
        mask = publisher.loan((4,), dtype=torch.bfloat16)
        image[:], mask[:] = 7, 1
        publisher.publish(Frame(image, mask, [mask]))
        received = subscriber.receive().data
        assert publisher.stats["bytes_copied"] == 0
    assert received.image.tolist() == [[7] * 4] * 4
    assert received.mask.dtype == torch.bfloat16
    assert received.more[0] is received.mask


def test_a_subscriber_without_a_type_gets_the_fields() -> None:
    with joined(publisher={"message_type": Detection}) as (publisher, subscriber):
        publisher.publish(Detection("cup", [np.arange(2)], Pose(1.0), {"a": Pose(2.0)}))
        sample = subscriber.receive()
    assert sample.header.fingerprint == Detection.fingerprint()
    assert same(
        sample.data,
        {
            "label": "cup",
            "boxes": [np.arange(2)],
            "pose": Pose(1.0),
            "parts": {"a": Pose(2.0)},
            "color": 1,
        },
    )


def test_messages_in_what_has_no_type_arrive_as_messages() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish({"at": [Pose(1), (tb.StringMessage("a"),)]})
        assert subscriber.receive().data == {"at": [Pose(1.0), (tb.StringMessage("a"),)]}
        publisher.publish(Pose(3))
        sample = subscriber.receive()
    assert sample.data == Pose(3.0)
    assert sample.header.fingerprint == 0


def test_a_subscriber_with_a_type_reads_fields_and_messages_of_who_has_none() -> None:
    with joined(subscriber={"message_type": Detection}) as (publisher, subscriber):
        publisher.publish({"label": "cup", "color": "green", "pose": {"x": 1}, "extra": [1]})
        assert subscriber.receive().data == Detection("cup", pose=Pose(1.0), color=Color.GREEN)
        publisher.publish(Detection("dish"))
        assert subscriber.receive().data == Detection("dish")
        for wrong, why in [
            ({}, "Detection.label: expected str, which has no default, got nothing"),
            ({"label": 1}, "Detection.label: expected str, got int"),
            ({"label": "", "color": True}, "Detection.color: expected enum<.*>, got bool"),
            ({"label": "", "color": 7}, "Detection.color: expected enum<.*>, got 7"),
            ({"label": "", "boxes": [None]}, r"Detection.boxes\[0\]: expected array, got None"),
            ({"label": "", "pose": {}}, "Detection.pose.x: expected float, which has no default"),
            ([1], "Detection: expected robot.Detection, got list"),
            (Pose(1.0), "Detection: expected robot.Detection, got .*Pose"),
        ]:
            publisher.publish(wrong)
            with pytest.raises(tb.MessageError, match=why):
                _ = subscriber.receive().data


def test_what_a_class_itself_refuses_is_an_error_of_the_message() -> None:
    @dataclass
    class Positive(tb.Message, name="robot.Positive"):
        value: int

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError("it is negative")

    with joined(subscriber={"message_type": Positive}) as (publisher, subscriber):
        publisher.publish({"value": -1})
        with pytest.raises(
            tb.MessageError, match=r"robot\.Positive refuses the received fields: it is neg"
        ):
            _ = subscriber.receive().data


def test_another_library_may_be_asked_for(torch: Any) -> None:
    with joined(
        publisher={"message_type": Detection},
        subscriber={"message_type": Detection, "library": "torch"},
    ) as (publisher, subscriber):
        publisher.publish(Detection("cup", [np.arange(2)]))
        assert type(subscriber.receive().data.boxes[0]) is torch.Tensor


def test_a_copy_of_a_sample_is_of_its_type() -> None:
    with joined(**typed(Pose)) as (publisher, subscriber):
        publisher.publish(Pose(1.0))
        assert subscriber.receive().copy().data == Pose(1.0)


def publish_older() -> None:
    from dataclasses import dataclass

    import tensorbus as tb

    @dataclass
    class Inner(tb.Message, name="robot.Inner"):
        b: int

    @dataclass
    class Scan(tb.Message, name="robot.Sweep"):
        id: int
        inner: Inner
        removed: str = "old"

    with tb.Publisher("scan", Scan, history=1) as publisher:
        publisher.publish(Scan(7, Inner(1)))
        tell(Scan.fingerprint())
        hear_the_end()


def hear_the_end() -> None:
    import sys

    sys.stdin.readline()


def test_a_newer_type_reads_what_an_older_one_wrote(elsewhere: Elsewhere) -> None:
    @dataclass
    class Inner(tb.Message, name="robot.Inner"):
        b: int

    @dataclass
    class Scan(tb.Message, name="robot.Sweep"):
        inner: Inner
        id: int
        unit: str = "m"
        added: list[int] = field(default_factory=lambda: [1])

    other = elsewhere.start(publish_older)
    fingerprint = other.hear()
    with tb.Subscriber("scan", Scan) as subscriber:
        sample = subscriber.receive(PATIENCE)
        assert sample.header.fingerprint == fingerprint != Scan.fingerprint()
        assert sample.data == Scan(Inner(1), 7)
    other.tell()


def test_a_field_that_is_not_wanted_may_hold_what_is_not_known_here(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        from dataclasses import dataclass, field

        import tensorbus as tb

        @dataclass
        class Unknown(tb.Message, name="robot.Unknown"):
            a: int = 1

        @dataclass
        class Nested(tb.Message, name="robot.Pose"):
            added: str = "so that it has no x"

        @dataclass
        class Detection(tb.Message, name="robot.Detection"):
            label: str
            unknown: Unknown = field(default_factory=Unknown)
            changed: Nested = field(default_factory=Nested)

        with tb.Publisher("topic", Detection, history=1) as publisher:
            publisher.publish(Detection("cup"))
            tell(Detection("cup").to_bytes())
            hear_the_end()

    other = elsewhere.start(publish)
    assert Detection.from_bytes(other.hear())[0] == Detection("cup")
    with tb.Subscriber("topic", Detection) as subscriber:
        assert subscriber.receive(PATIENCE).data == Detection("cup")
    with tb.Subscriber("topic") as subscriber, pytest.raises(tb.Unsupported, match="Unknown"):
        _ = subscriber.receive(PATIENCE).data
    other.tell()


def test_a_nested_message_of_a_class_that_is_not_known_names_it(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        import tensorbus as tb

        with tb.Subscriber("topic") as subscriber:
            sample = subscriber.receive(PATIENCE)
            try:
                _ = sample.data
            except tb.Unsupported as error:
                tell(str(error))
            tell(type(subscriber.receive(PATIENCE).data["known"]).__name__)

    with tb.Publisher("topic") as publisher:
        other = elsewhere.start(receive)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish([Pose(1.0)])
        publisher.publish({"known": tb.TimestampMessage(1, 2)})
        assert other.hear() == (
            "message type robot.Pose is not defined in this process: import the module that "
            "defines its class"
        )
        assert other.hear() == "TimestampMessage"


def test_handles_and_queues_carry_messages_too() -> None:
    sent = Detection("cup", [np.arange(2)], Pose(1.0))
    with tb.share(sent) as shared:
        assert same(tb.attach(shared.handle), sent)
    with tb.Queue() as queue:
        queue.put(sent)
        assert same(queue.get(timeout=PATIENCE), sent)


def test_with_asyncio_too() -> None:
    async def main() -> Any:
        with tb.Publisher("topic", Pose, history=1) as publisher:
            publisher.publish(Pose(1.0))
            async with tb.AsyncSubscriber("topic", Pose, timeout=PATIENCE) as subscriber:
                return (await subscriber.receive()).data

    assert asyncio.run(main()) == Pose(1.0)


@pytest.mark.parametrize("wrong", [int, Pose(1.0), "Pose", {}])
def test_a_message_type_that_is_none_is_refused(wrong: Any) -> None:
    for make in (tb.Publisher, tb.Subscriber):
        with pytest.raises(tb.InvalidArgument, match=r"inherits from tensorbus\.Message"):
            make("topic", wrong)


@dataclass
class Nest(tb.Message, name="robot.Nest"):
    number: float | None = None
    texts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    color: Color | None = None
    inner: list[Nest] = field(default_factory=list)
    any: Any = None


nests = st.recursive(
    st.builds(Nest),
    lambda inner: st.builds(
        Nest,
        st.none() | st.floats(allow_nan=False),
        st.dictionaries(st.text(), st.lists(st.integers()).map(tuple)),
        st.none() | st.sampled_from(Color),
        st.lists(inner, max_size=3),
        st.none() | st.integers() | inner | st.lists(inner, max_size=2),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(nests)
def test_any_message_arrives_as_it_was(message: Nest) -> None:
    with joined(**typed(Nest)) as (publisher, subscriber):
        publisher.publish(message)
        assert subscriber.receive(PATIENCE).data == message
    assert Nest.from_bytes(message.to_bytes())[0] == message


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["x", "y", "label", "any", "number"]), inner)
        | st.builds(Nest, any=inner)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(st.sampled_from([*Detection.__annotations__, *Nest.__annotations__]), values),
    st.sampled_from([Detection, Nest, Everything]),
)
def test_whatever_comes_is_a_message_or_an_error_of_it(
    came: dict[str, Any], cls: type[tb.Message]
) -> None:
    with joined(subscriber={"message_type": cls}) as (publisher, subscriber):
        publisher.publish(came)
        sample = subscriber.receive(PATIENCE)
        try:
            message = sample.data
        except tb.MessageError:
            return
    assert type(message) is cls
    message.validate()
