"""What a tile shows of a message: any shape and dtype, and small."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from tensorbus._view.frames import NUMBERS, TEXT, frame_of
from tensorbus._view.pixels import MAX_POINTS, SIDE


def shown(message: Any, view: str = "") -> tuple[dict[str, Any], bytes]:
    """The frame, as the page reads it."""
    encoded = frame_of(message, view).encoded()
    length = int.from_bytes(encoded[:4], "little")
    return json.loads(encoded[4 : 4 + length]), encoded[4 + length :]


def rgba(message: Any) -> np.ndarray[Any, Any]:
    header, payload = shown(message)
    return np.frombuffer(payload, np.uint8).reshape(header["height"], header["width"], 4)


def test_an_image_of_bytes_keeps_its_colours() -> None:
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert (rgba(image)[:, :, :3] == image).all()
    assert (rgba(image)[:, :, 3] == 255).all()


def test_planes_are_an_image_too() -> None:
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    assert (rgba(np.ascontiguousarray(image.transpose(2, 0, 1))) == rgba(image)).all()


def test_floats_between_0_and_1_keep_their_brightness() -> None:
    assert rgba(np.full((4, 4, 3), 0.5))[0, 0].tolist() == [127, 127, 127, 255]


def test_other_integers_are_spread() -> None:
    image = np.array([[[1000], [3000]]], np.uint16)
    assert rgba(image)[0, :, 0].tolist() == [0, 255]


def test_an_alpha_channel_is_used() -> None:
    assert rgba(np.full((2, 2, 4), 9, np.uint8))[0, 0].tolist() == [9, 9, 9, 9]


def test_blue_comes_first_where_the_message_says_so() -> None:
    message = tb.ImageMessage(np.full((2, 2, 3), (1, 2, 3), np.uint8), encoding="bgr8")
    assert rgba(message)[0, 0].tolist() == [3, 2, 1, 255]


def test_a_heat_map_beside_such_an_image_keeps_its_colours() -> None:
    depth = np.array([[0.0, 2.0]])
    image = np.zeros((2, 2, 3), np.uint8)
    _, payload = shown({"image": image, "depth": depth, "encoding": "bgr8"}, "depth")
    assert [*payload[4:7]] == [253, 231, 37]  # yellow


def test_a_large_image_is_made_small_before_anything_is_computed() -> None:
    everywhere = np.broadcast_to(np.uint8(7), (10**6, 10**6, 3))  # 3 TB, of one byte
    header, payload = shown(everywhere)
    assert max(header["width"], header["height"]) <= SIDE
    assert len(payload) == header["width"] * header["height"] * 4


def test_the_page_gets_the_shape_of_the_whole_image() -> None:
    header, _ = shown(np.zeros((480, 1920, 3), np.uint8))
    assert (header["shape"], header["ratio"]) == ([480, 1920, 3], 4.0)


def test_a_matrix_is_a_heat_map_with_its_range() -> None:
    header, payload = shown(np.array([[0.0, 2.0], [-2.0, np.nan]]))
    assert (header["kind"], header["low"], header["high"]) == ("heat", -2, 2)
    pixels = np.frombuffer(payload, np.uint8).reshape(2, 2, 4)
    assert pixels[0, 1, :3].tolist() == [253, 231, 37]  # the greatest is yellow
    assert pixels[1, 1].tolist() == [0, 0, 0, 0]
    assert header["nonfinite_count"] == 1


def test_of_more_dimensions_the_first_part_is_shown() -> None:
    header, _ = shown(np.zeros((5, 6, 7, 8)))
    assert (header["kind"], header["part"]) == ("heat", [0, 0])
    header, _ = shown(np.zeros((16, 3, 32, 48)))  # a batch
    assert (header["kind"], header["part"]) == ("image", [0])
    assert (header["width"], header["height"]) == (48, 32)


def test_points_have_the_colours_of_their_message() -> None:
    points = np.random.default_rng(1).random((1000, 3))
    points[3] = np.inf
    colours = np.full((1000, 3), (1, 2, 3), np.uint8)
    header, payload = shown(tb.PointCloudMessage(points, colors=colours))
    assert (header["kind"], header["count"]) == ("points", 999)
    places = np.frombuffer(payload[: 999 * 12], np.float32).reshape(999, 3)
    assert places[0] == pytest.approx(points[0])
    assert payload[999 * 12 :] == bytes([1, 2, 3, 255]) * 999


def test_many_points_are_thinned() -> None:
    header, _ = shown(np.zeros((10 * MAX_POINTS + 1, 3), np.float32))
    assert header["count"] <= MAX_POINTS


def test_colours_that_do_not_fit_the_points_are_not_used() -> None:
    message = {"points": np.zeros((50, 3)), "colors": np.zeros((7, 3), np.uint8)}
    assert shown(message)[0]["count"] == 50


def test_numbers_anywhere_in_a_message_are_plotted() -> None:
    message = {"speed": 2.5, "on": True, "wheels": np.array([1.0, 2.0]), "name": "cart"}
    header, _ = shown(message)
    assert header["view"] == NUMBERS
    assert header["series"] == {"speed": 2.5, "on": 1, "wheels[0]": 1, "wheels[1]": 2}


def test_numbers_that_json_does_not_have_are_gaps() -> None:
    values = [float("nan"), float("inf"), 10**400, np.float16("-inf")]
    assert set(shown(values)[0]["series"].values()) == {None}


def test_each_array_of_a_message_is_a_view_and_so_is_its_text() -> None:
    message = {"left": np.zeros((4, 4)), "right": np.zeros((5, 5)), "id": 7}
    header, _ = shown(message, "right")
    assert header["views"] == ["left", "right", NUMBERS, TEXT]
    assert (header["view"], header["width"]) == ("right", 5)
    assert shown(message, "nothing of this name")[0]["view"] == "left"
    assert shown(message, TEXT)[0]["lines"] == [
        "left: float64 (4, 4)",
        "right: float64 (5, 5)",
        "id: 7",
    ]


UNUSUAL = {
    "empty": (np.zeros((0, 3)), "text"),
    "of no dimension": (np.zeros(()), "numbers"),
    "all NaN": (np.full((4, 4), np.nan), "heat"),
    "all infinite": (np.full((4, 4, 3), -np.inf), "image"),
    "from end to end of float64": (np.array([[1.7e308, -1.7e308]] * 20), "heat"),
    "points too far for float32": (np.full((50, 3), 1e300), "points"),
    "points without a finite one": (np.full((50, 3), np.nan), "points"),
    "complex": (np.full((4, 4), 3 + 4j), "heat"),
    "bool": (np.ones((4, 4), bool), "image"),
    "float16": (np.zeros((4, 4, 3), np.float16), "image"),
    "times": (np.zeros((40, 2), "M8[s]"), "heat"),
    "texts": (np.zeros(3, "U5"), "text"),
    "raw": (np.zeros((2, 2), "V3"), "text"),
    "records": (np.zeros(30, [("a", "f4")]), "text"),
    "one row": (np.zeros((1, 10**6), np.uint8), "image"),
    "a long curve": (np.zeros(10**6), "curve"),
    "negative strides": (np.zeros((9, 9))[::-1, ::-2], "heat"),
    "nothing": (None, "text"),
    "an empty dict": ({}, "text"),
    "bytes": (bytes(10**6), "text"),
    "a long text": ("x" * 10**6, "text"),
    "deep": (json.loads("[" * 60 + "1" + "]" * 60), "text"),
    "wide": (list(range(10**5)), "numbers"),
    "many names": ({str(number): number for number in range(10**5)}, "numbers"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_of_unusual_data_something_is_shown(name: str) -> None:
    message, kind = UNUSUAL[name]
    header, payload = shown(message)
    assert header["kind"] == kind
    assert len(payload) + len(str(header)) < 10**6


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4"])
def test_dtypes_that_numpy_does_not_have_are_shown(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    array = np.array([[0, 1], [2, 3]]).astype(getattr(ml_dtypes, dtype))
    header, _ = shown(array)
    assert (header["kind"], header["dtype"], header["high"]) == ("heat", dtype, 3)
