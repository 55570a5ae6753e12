"""Typed messages between processes: what arrives, what is refused, and with which words."""

from __future__ import annotations

import enum
import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorbus as tb
from harness import PATIENCE, Elsewhere, joined, tell


class Color(enum.Enum):
    RED = 1
    GREEN = "green"


class Mode(enum.Flag):
    FAST = 1
    SAFE = 2


@dataclass
class Pose(tb.Message, name="robot.Pose"):
    x: float
    y: float = 0.0


@dataclass
class Detection(tb.Message, name="robot.Detection"):
    label: str
    boxes: list[np.ndarray] = field(default_factory=list)
    pose: Pose | None = None
    parts: dict[str, Pose] = field(default_factory=dict)
    color: Color = Color.RED


@dataclass
class Everything(tb.Message, name="robot.Everything"):
    """A field of each kind."""

    yes: bool
    count: int
    ratio: float
    phase: complex
    text: str
    raw: bytes
    nothing: None
    single: np.float32
    maybe: int | None
    either: int | str | list[float]
    color: Color
    mode: Mode
    colors: list[Color]
    numbers: list[int]
    pair: tuple[int, str]
    row: tuple[float, ...]
    names: set[str]
    frozen: frozenset[int]
    table: dict[str, int]
    by_color: dict[Color, tuple[Color, ...]]
    choice: Literal["left", "right", 3]
    whatever: Any
    array: np.ndarray
    arrays: dict[str, list[np.ndarray]]
    pose: Pose
    poses: list[Pose | None]
    unit: ClassVar[str] = "m"


def everything(**changed: Any) -> Everything:
    values: dict[str, Any] = {
        "yes": True,
        "count": 3,
        "ratio": 0.5,
        "phase": 1j,
        "text": "größer",
        "raw": b"\0\xff",
        "nothing": None,
        "single": np.float32(1.5),
        "maybe": None,
        "either": [1.0],
        "color": Color.GREEN,
        "mode": Mode.FAST | Mode.SAFE,
        "colors": [Color.RED, Color.GREEN],
        "numbers": [1, 2**70],
        "pair": (1, "a"),
        "row": (1.0, 2.0),
        "names": {"a", "b"},
        "frozen": frozenset({1}),
        "table": {"a": 1},
        "by_color": {Color.RED: (Color.GREEN,)},
        "choice": "left",
        "whatever": [(1, {2: None})],
        "array": np.arange(3),
        "arrays": {"a": [np.zeros(2)], "b": []},
        "pose": Pose(1.0),
        "poses": [Pose(2.0), None],
    }
    return Everything(**{**values, **changed})


def same(one: Any, other: Any) -> bool:
    """Equal, with arrays anywhere, and of equal classes."""
    if isinstance(one, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    if isinstance(one, tb.Message):
        return type(one) is type(other) and same(vars(one), vars(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def typed(cls: type[tb.Message]) -> dict[str, Any]:
    return {"publisher": {"message_type": cls}, "subscriber": {"message_type": cls}}


def test_a_field_of_each_kind_arrives_as_it_was() -> None:
    with joined(**typed(Everything)) as (publisher, subscriber):
        publisher.publish(everything())
        received = subscriber.receive().data
    assert type(received) is Everything
    assert same(received, everything())


def test_an_int_in_a_float_and_numbers_of_numpy_become_what_was_declared() -> None:
    sent = everything(
        ratio=1,
        phase=2,
        count=np.int16(3),
        yes=np.True_,
        row=(1, np.float32(0.5)),
        text=np.str_("a"),
    )
    with joined(**typed(Everything)) as (publisher, subscriber):
        publisher.publish(sent)
        received = subscriber.receive().data
    found = [received.ratio, received.phase, received.count, received.yes, *received.row]
    assert [type(value) for value in found] == [float, complex, int, bool, float, float]
    assert found == [1.0, 2 + 0j, 3, True, 1.0, 0.5]
    assert type(received.text) is str


WRONG = [
    ({"yes": 1}, "Everything.yes: expected bool, got int"),
    ({"count": True}, "Everything.count: expected int, got bool"),
    ({"count": 1.0}, "Everything.count: expected int, got float"),
    ({"count": np.float64(1)}, "Everything.count: expected int, got numpy.float64"),
    ({"ratio": "1"}, "Everything.ratio: expected float, got str"),
    ({"ratio": 10**400}, "Everything.ratio: expected float, got an int beyond its range"),
    ({"ratio": np.longdouble(1)}, "Everything.ratio: expected float, got numpy.longdouble"),
    ({"text": None}, "Everything.text: expected str, got None"),
    ({"raw": bytearray()}, "Everything.raw: expected bytes, got bytearray"),
    ({"nothing": 0}, "Everything.nothing: expected none, got int"),
    ({"single": 1.5}, "Everything.single: expected numpy.float32, got float"),
    ({"maybe": "a"}, "Everything.maybe: expected int|none, got str"),
    ({"either": ["a"]}, r"Everything.either\[0\]: expected float, got str"),
    ({"color": 1}, 'Everything.color: expected enum<Color: RED=1,GREEN="green">, got int'),
    ({"color": Mode.FAST}, "Everything.color: expected enum<Color.*, got .*Mode"),
    ({"colors": [Color.RED, "green"]}, r"Everything.colors\[1\]: expected enum<.*, got str"),
    ({"numbers": (1,)}, "Everything.numbers: expected list<int>, got tuple"),
    ({"numbers": [1, [2]]}, r"Everything.numbers\[1\]: expected int, got list"),
    ({"pair": (1, 2)}, r"Everything.pair\[1\]: expected str, got int"),
    ({"pair": (1,)}, "Everything.pair: expected tuple<int,str>, got a tuple of 1"),
    ({"row": [1.0]}, "Everything.row: expected tuple<float,...>, got list"),
    ({"names": {1}}, "Everything.names.*: expected str, got int"),
    ({"table": {"a": "b"}}, r"Everything.table\['a'\]: expected int, got str"),
    ({"table": {1: 1}}, "Everything.table key 1: expected str, got int"),
    ({"choice": "up"}, 'Everything.choice: expected literal<"left","right",3>, got "up"'),
    ({"choice": 3.0}, "Everything.choice: expected literal.*, got 3.0"),
    ({"array": [1]}, "Everything.array: expected array, got list"),
    ({"arrays": {"a": [None]}}, r"Everything.arrays\['a'\]\[0\]: expected array, got None"),
    ({"pose": None}, "Everything.pose: expected robot.Pose, got None"),
    ({"pose": Pose("a")}, "Everything.pose.x: expected float, got str"),  # type: ignore[arg-type]
    ({"poses": [Pose(None)]}, r"Everything.poses\[0\].x: expected float"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("changed", "why"), WRONG, ids=[why for _, why in WRONG])
def test_a_field_of_another_type_is_refused_by_its_path(changed: Any, why: str) -> None:
    with pytest.raises(tb.MessageError, match=why):
        everything(**changed).validate()


def test_a_tensor_where_an_array_is_declared_is_refused(torch: Any) -> None:
    message = Detection("cup", [np.zeros(4), np.zeros(4), torch.zeros(4)])
    with pytest.raises(TypeError, match=r"Detection.boxes\[2\]: expected array, got torch.Tensor"):
        message.validate()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen(tb.Message, name="robot.Frozen"):
    a: int
    b: str | None = None


@dataclass
class Base(tb.Message):
    a: int


@dataclass
class Derived(Base, name="robot.Derived"):
    b: float = 0.5
    total: float = field(init=False)
    note: str = field(init=False, default="none")

    def __post_init__(self) -> None:
        self.total = self.a + self.b


def test_frozen_classes_with_slots_and_keywords_work() -> None:
    with joined(**typed(Frozen)) as (publisher, subscriber):
        publisher.publish(Frozen(a=1, b="x"))
        assert subscriber.receive().data == Frozen(a=1, b="x")
    assert Frozen.definition() == "robot.Frozen\na: int\nb: none|str = ..."


def test_inherited_fields_and_those_that_init_does_not_take_arrive() -> None:
    sent = Derived(1)
    sent.total, sent.note = 9.0, "changed"
    with joined(**typed(Derived)) as (publisher, subscriber):
        publisher.publish(sent)
        received = subscriber.receive().data
    assert received == sent
    assert (received.total, received.note) == (9.0, "changed")


def test_a_derived_class_does_where_its_base_is_declared() -> None:
    @dataclass
    class Holder(tb.Message):
        base: Base

    with joined(**typed(Holder)) as (publisher, subscriber):
        publisher.publish(Holder(Derived(1)))
        assert type(subscriber.receive().data.base) is Derived


def test_a_class_without_the_decorator_is_refused_with_a_hint() -> None:
    class Forgot(tb.Message):
        a: int

    for use in (Forgot, Forgot.definition, lambda: tb.Publisher("topic", Forgot)):
        with pytest.raises(tb.MessageError, match="no dataclass: write @dataclass above `class Fo"):
            use()

    class AlsoForgot(Pose):
        z: float

    with pytest.raises(tb.MessageError, match="write @dataclass above `class AlsoForgot`"):
        AlsoForgot.fingerprint()


@pytest.mark.parametrize("wrong", [int, Pose(1.0), "Pose", {}])
def test_a_message_type_that_is_none_is_refused(wrong: Any) -> None:
    for make in (tb.Publisher, tb.Subscriber):
        with pytest.raises(tb.InvalidArgument, match=r"inherits from tensorbus\.Message"):
            make("topic", wrong)


def refused(annotation: Any) -> str:
    cls = dataclass(type("Odd", (tb.Message,), {"__annotations__": {"field": annotation}}))
    with pytest.raises(tb.Unsupported) as caught:
        cls.definition()
    return str(caught.value)


def test_a_type_that_cannot_travel_is_refused_where_it_stands() -> None:
    assert "Odd.field: Path cannot be the type of a field; bool, int" in refused(list[Path])
    assert "Odd.field: its type 'Missing' cannot be read: name 'Missing'" in refused("Missing")
    assert "Callable" in refused(Callable)
    assert "nobody could tell" in refused(Color | int)
    assert "nobody could tell" in refused(Color | Any)

    class Odd(enum.Enum):
        PAIR = (1, 2)

    assert "no value of an enum" in refused(Odd)


def test_an_enum_may_stand_beside_what_is_unlike_its_values() -> None:
    @dataclass
    class Holder(tb.Message):
        color: Color | float | None

    with joined(**typed(Holder)) as (publisher, subscriber):
        for value in (Color.GREEN, Color.RED, 0.5, None):
            publisher.publish(Holder(value))
            assert subscriber.receive().data.color == value


def test_a_message_inside_itself_is_refused() -> None:
    @dataclass
    class Tree(tb.Message):
        child: Tree | None = None

    tree = Tree()
    tree.child = tree
    with pytest.raises(tb.Unsupported, match="nested too deep, or inside itself"):
        tree.validate()
    with joined(**typed(Tree)) as (publisher, subscriber):
        publisher.publish(Tree(Tree(Tree())))
        assert subscriber.receive().data == Tree(Tree(Tree()))


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
        with pytest.raises(tb.MessageError, match=r"robot\.Positive refuses what came: it is neg"):
            _ = subscriber.receive().data


def test_another_library_may_be_asked_for(torch: Any) -> None:
    with joined(
        publisher={"message_type": Detection},
        subscriber={"message_type": Detection, "as_": "torch"},
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
        dropped: int = 0

    @dataclass
    class Scan(tb.Message, name="robot.Scan"):
        id: int
        inner: Inner
        removed: str = "old"

    with tb.Publisher("scan", Scan, history=1) as publisher:
        publisher.publish(Scan(7, Inner(1, 2)))
        tell(Scan.fingerprint())
        publisher.wait_for_subscribers(timeout=PATIENCE)
        hear_the_end()


def hear_the_end() -> None:
    import sys

    sys.stdin.readline()


def test_a_newer_type_reads_what_an_older_one_wrote(elsewhere: Elsewhere) -> None:
    @dataclass
    class Inner(tb.Message, name="robot.Inner"):
        b: int
        added: list[int] = field(default_factory=lambda: [1])

    @dataclass
    class Scan(tb.Message, name="robot.Scan"):
        inner: Inner
        id: int
        unit: str = "m"

    other = elsewhere.start(publish_older)
    fingerprint = other.hear()
    with tb.Subscriber("scan", Scan) as subscriber:
        sample = subscriber.receive(PATIENCE)
        assert sample.header.fingerprint == fingerprint != Scan.fingerprint()
        assert sample.data == Scan(Inner(1), 7)
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
            "this is a message of type robot.Pose, which this process does not know: import the "
            "module that defines its class"
        )
        assert other.hear() == "TimestampMessage"


def test_with_asyncio_too() -> None:
    import asyncio

    async def main() -> Any:
        with tb.Publisher("topic", Pose, history=1) as publisher:
            publisher.publish(Pose(1.0))
            async with tb.AsyncSubscriber("topic", Pose, timeout=PATIENCE) as subscriber:
                return (await subscriber.receive()).data

    assert asyncio.run(main()) == Pose(1.0)


def made(value: type) -> type[tb.Message]:
    @dataclass
    class Made(tb.Message, name="robot.Made"):
        value: value  # type: ignore[valid-type]

    return Made


def test_every_class_is_registered_and_the_newer_of_two_counts() -> None:
    first, second, other = made(int), made(int), made(float)
    assert tb.MessageType.get(first.fingerprint()) is second
    assert tb.MessageType.get_all()[other.fingerprint()] is other
    assert tb.MessageType.get(tb.ImageMessage.fingerprint()) is tb.ImageMessage
    assert tb.MessageType.get(1) is None
    tb.MessageType.register(first)
    assert tb.MessageType.get(first.fingerprint()) is first


def test_a_registered_class_goes_when_nobody_holds_it() -> None:
    fingerprint = made(bytes).fingerprint()
    gc.collect()
    assert tb.MessageType.get(fingerprint) is None


def test_what_was_cleared_can_be_registered_again() -> None:
    kept = tb.MessageType.get_all()
    try:
        tb.MessageType.clear()
        assert tb.MessageType.get(Pose.fingerprint()) is None
        assert tb.MessageType.get(tb.ImageMessage.fingerprint()) is tb.ImageMessage
        with joined() as (publisher, subscriber):
            publisher.publish([Pose(1.0)])
            with pytest.raises(tb.Unsupported, match=r"robot\.Pose"):
                _ = subscriber.receive().data
    finally:
        for cls in kept.values():
            tb.MessageType.register(cls)
    assert tb.MessageType.get(Pose.fingerprint()) is Pose
    with pytest.raises(tb.InvalidArgument, match="does not inherit"):
        tb.MessageType.register(int)  # type: ignore[arg-type]


def test_a_class_that_was_made_anew_takes_what_the_old_one_is() -> None:
    old, new = made(int), made(int)
    with joined(publisher={"message_type": old}, subscriber={"message_type": new}) as (
        publisher,
        subscriber,
    ):
        publisher.publish(new(1))  # type: ignore[call-arg]
        assert type(subscriber.receive().data) is new


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
