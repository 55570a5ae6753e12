"""What the fields of a message may be, and what is refused with which words."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import joined
from support.message_examples import (
    Color,
    Detection,
    Everything,
    Mode,
    Pose,
    everything,
    same,
    typed,
)


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
    ({"ratio": np.timedelta64(5)}, "Everything.ratio: expected float, got numpy.timedelta64"),
    ({"ratio": np.timedelta64(5, "s")}, "Everything.ratio: expected float, got numpy.timedelta64"),
    ({"count": np.timedelta64(5)}, "Everything.count: expected int, got numpy.timedelta64"),
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


def refused(annotation: Any) -> str:
    cls = dataclass(type("Odd", (tb.Message,), {"__annotations__": {"field": annotation}}))
    with pytest.raises(tb.Unsupported) as caught:
        cls.definition()
    return str(caught.value)


def test_a_type_that_cannot_travel_is_refused_where_it_stands() -> None:
    assert "Odd.field: Path cannot be the type of a field; supported are bool, int" in refused(
        list[Path]
    )
    assert "Odd.field: its type 'Missing' cannot be read: name 'Missing'" in refused("Missing")
    assert "Callable" in refused(Callable)
    assert "would be ambiguous in this union" in refused(Color | int)
    assert "would be ambiguous in this union" in refused(Color | Any)

    class Odd(enum.Enum):
        PAIR = (1, 2)

    assert "can be sent as values of an enum" in refused(Odd)


def test_an_enum_may_stand_beside_what_is_unlike_its_values() -> None:
    @dataclass
    class Holder(tb.Message):
        color: Color | float | None

    with joined(**typed(Holder)) as (publisher, subscriber):
        for value in (Color.GREEN, Color.RED, 0.5, None):
            publisher.publish(Holder(value))
            assert subscriber.receive().data.color == value


def test_a_duration_of_numpy_may_stand_beside_a_number() -> None:
    @dataclass
    class Holder(tb.Message):
        time: float | np.timedelta64

    with joined(**typed(Holder)) as (publisher, subscriber):
        publisher.publish(Holder(np.timedelta64(5, "s")))
        assert subscriber.receive().data.time == np.timedelta64(5, "s")


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
