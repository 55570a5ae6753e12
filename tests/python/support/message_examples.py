"""Message types for the tests of them, and what they share."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

import tensorbus as tb


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
        return type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, tb.Message):
        return type(one) is type(other) and same(vars(one), vars(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def typed(cls: type[tb.Message]) -> dict[str, Any]:
    return {"publisher": {"message_type": cls}, "subscriber": {"message_type": cls}}
