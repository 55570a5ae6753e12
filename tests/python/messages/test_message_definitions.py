"""What the type of a message is called, and when two are the same."""

from __future__ import annotations

import enum
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Optional, Union

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorbus as tb
from support.harness import Elsewhere, tell
from tensorbus.messages import compatible

if TYPE_CHECKING:
    import torch


class Color(enum.Enum):
    RED = 1
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 9


class Mode(enum.Flag):
    NONE = 0
    FAST = 1
    SAFE = 2
    BOTH = 3


@dataclass
class Spot(tb.Message, name="robot.Spot"):
    x: float
    y: float = 0.0


@dataclass
class Tree(tb.Message, name="robot.Tree"):
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Chicken(tb.Message, name="robot.Chicken"):
    laid: list[Egg]


@dataclass
class Egg(tb.Message, name="robot.Egg"):
    hatched: Chicken | None
    weight: float


def type_of(annotation: Any) -> str:
    """How a field of this annotation is spelled."""
    cls = type("One", (tb.Message,), {"__annotations__": {"field": annotation}}, name="robot.One")
    name, line = dataclass(cls).definition().split("\n")
    assert name == "robot.One"
    return line.removeprefix("field: ")


SPELLED = [
    (Any, "any"),
    (object, "any"),
    (None, "none"),
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (complex, "complex"),
    (str, "str"),
    (bytes, "bytes"),
    (np.ndarray, "array"),
    (npt.NDArray[np.float32], "array"),
    (np.float32, "numpy.float32"),
    (np.bool_, "numpy.bool"),
    (list, "list<any>"),
    (list[int], "list<int>"),
    (set[str], "set<str>"),
    (frozenset[str], "frozenset<str>"),
    (dict, "dict<any,any>"),
    (dict[str, list[np.ndarray]], "dict<str,list<array>>"),
    (tuple, "tuple<any,...>"),
    (tuple[int, str], "tuple<int,str>"),
    (tuple[int, ...], "tuple<int,...>"),
    (tuple[()], "tuple<>"),
    (typing.Tuple[()], "tuple<>"),  # noqa: UP006
    (typing.Tuple, "tuple<any,...>"),  # noqa: UP006
    (typing.List, "list<any>"),  # noqa: UP006
    (typing.FrozenSet, "frozenset<any>"),  # noqa: UP006
    (typing.Dict, "dict<any,any>"),  # noqa: UP006
    (Optional[int], "int|none"),  # noqa: UP045
    (int | None, "int|none"),
    (Union[str, int, None | str], "int|none|str"),  # noqa: UP007
    (list[str | int], "list<int|str>"),
    (Color, 'enum<Color: RED=1,GREEN="green">'),
    (Level, "enum<Level: LOW=0,HIGH=9>"),
    (Mode, "enum<Mode: FAST=1,SAFE=2>"),
    (Literal["b", "a", 1, None, True, b"a"], 'literal<"a","b",1,b"61",none,true>'),
    ("int | None", "int|none"),
    (dict[str, list["Spot"]], f"dict<str,list<robot.Spot#{Spot.fingerprint():016x}>>"),
    (list["Spot"], f"list<robot.Spot#{Spot.fingerprint():016x}>"),
]


@pytest.mark.parametrize(("annotation", "spelled"), SPELLED, ids=[text for _, text in SPELLED])
def test_each_type_is_spelled(annotation: Any, spelled: str) -> None:
    assert type_of(annotation) == spelled


@pytest.mark.parametrize("annotation", ["torch.Tensor", "torch.Tensor | None", "np.ndarray"])
def test_the_real_classes_are_spelled_like_the_names_of_those_not_imported(
    annotation: str, torch: Any
) -> None:
    assert type_of(annotation) == type_of(eval(annotation, {"torch": torch, "np": np}))


def test_a_definition_has_a_line_for_each_field_in_the_order_of_their_names() -> None:
    @dataclass
    class Detection(tb.Message, name="robot.Found"):
        label: str
        score: float = 1.0
        boxes: list[np.ndarray] = field(default_factory=list)
        mask: torch.Tensor | None = None
        area: float = field(init=False)
        count: ClassVar[int] = 0

    assert Detection.definition() == (
        "robot.Found\n"
        "area: float = ...\n"
        "boxes: list<array> = ...\n"
        "label: str\n"
        "mask: none|tensor = ...\n"
        "score: float = ..."
    )


# From draft-eastlake-fnv and computed by hand: C++ must find the same.
def test_the_fingerprint_is_fnv_1a_of_the_definition_without_defaults() -> None:
    value = 14695981039346656037
    for byte in b"robot.Spot\nx: float\ny: float":
        value = (value ^ byte) * 1099511628211 % 2**64
    assert Spot.fingerprint() == value
    assert Spot.definition() == "robot.Spot\nx: float\ny: float = ..."


def test_the_fingerprints_of_standard_messages_stay_as_they_are() -> None:
    assert f"{tb.ImageMessage.fingerprint():016x}" == "e6660a94861c1786"
    assert f"{tb.TensorMessage.fingerprint():016x}" == "e539b18fff90a28f"


def test_a_nested_type_changes_the_fingerprint_of_those_around_it() -> None:
    def holder(annotation: Any) -> int:
        @dataclass
        class Inner(tb.Message, name="robot.Inner"):
            value: annotation

        @dataclass
        class Outer(tb.Message, name="robot.Outer"):
            inner: Inner

        return Outer.fingerprint()

    assert holder(int) == holder(int)
    assert holder(int) != holder(float)


def test_a_type_inside_itself_is_named_alone() -> None:
    assert Tree.definition() == (
        "robot.Tree\nleft: none|robot.Tree = ...\nright: none|robot.Tree = ..."
    )


def test_types_inside_each_other_name_alone_what_is_open_around_them() -> None:
    from tensorbus.messages._definition import fingerprint_of

    inner = fingerprint_of("robot.Egg\nhatched: none|robot.Chicken\nweight: float")
    assert Chicken.definition() == f"robot.Chicken\nlaid: list<robot.Egg#{inner:016x}>"
    inner = fingerprint_of("robot.Chicken\nlaid: list<robot.Egg>")
    assert Egg.definition() == (
        f"robot.Egg\nhatched: none|robot.Chicken#{inner:016x}\nweight: float"
    )


def test_a_type_is_called_by_module_and_class_unless_it_says_otherwise() -> None:
    @dataclass
    class Here(tb.Message):
        pass

    function = "test_a_type_is_called_by_module_and_class_unless_it_says_otherwise"
    assert Here.definition() == f"{__name__}.{function}.Here"
    assert tb.StringMessage.definition() == "tensorbus.StringMessage\ndata: str"


@pytest.mark.parametrize("name", ["", "a b", "a.", ".a", "a#1", "a\nb", 7])
def test_a_name_that_no_definition_can_hold_is_refused(name: Any) -> None:
    with pytest.raises(tb.InvalidArgument, match="name="):
        type("Odd", (tb.Message,), {}, name=name)


def test_another_process_has_the_same_definitions(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import sys

        import tensorbus as tb

        tell([(name, getattr(tb, name).definition()) for name in STANDARD])
        assert not {"torch", "numpy"} & set(sys.modules)

    other = elsewhere.start(look)
    assert other.hear() == [(name, getattr(tb, name).definition()) for name in STANDARD]


STANDARD = ["ImageMessage", "TensorMessage", "MultiTensorMessage", "PointCloudMessage"]


def test_without_torch_and_numpy_the_definitions_are_the_same(elsewhere: Elsewhere) -> None:
    def look() -> None:
        without_torch_and_numpy()
        import tensorbus as tb

        tell([getattr(tb, name).definition() for name in STANDARD])

    other = elsewhere.start(look)
    assert other.hear() == [getattr(tb, name).definition() for name in STANDARD]


def without_torch_and_numpy() -> None:
    """Makes this process one in which neither is installed."""
    import sys

    sys.modules.update(dict.fromkeys(["torch", "numpy"]))  # type: ignore[arg-type]


WRITER = "robot.Scan\nid: int\nranges: list<float>\nunit: str = ..."


@pytest.mark.parametrize(
    ("reader", "reason"),
    [
        (WRITER, None),
        ("robot.Scan", None),
        ("robot.Scan\nranges: list<float>\nid: int", None),
        ("robot.Scan\nid: int = ...", None),
        ("robot.Scan\nid: int\nadded: float = ...", None),
        ("robot.Scan\nunit: str", None),
        ("robot.Other\nid: int", "expected robot.Other, published is robot.Scan"),
        ("robot.Scan\nid: float", "robot.Scan.id: expected float, published is int"),
        ("robot.Scan\nid: float = ...", "robot.Scan.id: expected float, published is int"),
        ("robot.Scan\nadded: float", "robot.Scan.added is not published, and has no default"),
    ],
)
def test_a_reader_fits_a_writer_by_name_and_by_its_own_fields(
    reader: str, reason: str | None
) -> None:
    found = compatible(WRITER, reader)
    if reason is None:
        assert found is None
    else:
        assert reason in str(found)


def test_what_is_no_definition_is_refused() -> None:
    with pytest.raises(tb.InvalidArgument, match='no definition of a message type: "id"'):
        compatible(WRITER, "robot.Scan\nid")


annotations = st.recursive(
    st.sampled_from([int, str, float, None, bytes, np.ndarray, Spot, Any, np.uint8]),
    lambda inner: (
        inner.map(lambda item: list[item])
        | inner.map(lambda item: Optional[item])  # noqa: UP045
        | inner.map(lambda item: tuple[item, ...])
        | st.tuples(inner, inner).map(lambda pair: dict[pair])
        | st.tuples(inner, inner).map(lambda pair: tuple[pair])
        | st.tuples(inner, inner).map(lambda pair: Union[pair])  # noqa: UP007
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,3}_", fullmatch=True), annotations, max_size=4))
def test_every_type_fits_itself_whatever_the_order_of_its_fields(fields: dict[str, Any]) -> None:
    def defined(order: Any) -> type[tb.Message]:
        body = {"__annotations__": dict(order)}
        return dataclass(type("Some", (tb.Message,), body, name="robot.Some"))

    one, other = defined(fields.items()), defined(reversed(fields.items()))
    assert one.definition() == other.definition()
    assert one.fingerprint() == other.fingerprint() != 0
    assert compatible(one.definition(), other.definition()) is None
    assert one.definition().count("\n") == len(fields)
