"""Images and messages in messages, in the files of `tensorbus recording export`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from recorded_topics import record
from support.screens.commands import parsed
from tensorbus._cli.command import main

pytest.importorskip("typer")

BLUE = (250, 100, 5, 200)  # if blue is first; the last is alpha
RED_FIRST = (5, 100, 250, 200)


@dataclass
class Box(tb.Message, name="test.exports.Box"):
    corner: np.ndarray[Any, Any]
    label: str


@dataclass
class Seen(tb.Message, name="test.exports.Seen"):
    header: tb.HeaderMessage
    boxes: list[Box]
    camera: tb.ImageMessage


def exported(path: Path, kind: str) -> Path:
    """The folder of the only topic after an export."""
    folder = path.with_suffix(f".{kind}")
    assert main(["recording", "export", str(path), "-o", str(folder), "--format", kind]) == 0
    (topic,) = folder.iterdir()
    return topic


@pytest.mark.parametrize(
    ("encoding", "channels", "expected"),
    [
        ("bgr8", 3, RED_FIRST),
        ("bgra8", 4, RED_FIRST),
        ("BGR8", 3, RED_FIRST),
        ("bgr16", 3, RED_FIRST),
        ("rgb8", 3, BLUE),
        ("rgba8", 4, BLUE),
    ],
)
@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_exported_images_have_the_colours_of_their_encoding(
    tmp_path: Path, kind: str, encoding: str, channels: int, expected: tuple[int, ...]
) -> None:
    image_of = pytest.importorskip("PIL.Image")
    if kind == "jpg" and channels == 4:
        pytest.skip("JPEG has no alpha")
    path = tmp_path / "run.mcap"
    pixels = np.full((16, 16, channels), BLUE[:channels], np.uint8)
    record(
        path,
        {"camera": [tb.ImageMessage(pixels, encoding=encoding)]},
        {"camera": tb.ImageMessage},
    )
    found = np.asarray(image_of.open(exported(path, kind) / f"000000.data.{kind}"))
    difference = found[8, 8].astype(int) - expected[:channels]
    assert abs(difference).max() <= (0 if kind == "png" else 3)


def test_exported_arrays_keep_the_order_of_their_channels(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    pixels = np.full((4, 4, 3), BLUE[:3], np.uint8)
    record(path, {"camera": [{"image": pixels, "encoding": "bgr8"}]})
    assert (np.load(exported(path, "npz") / "000000.npz")["image"] == pixels).all()


def test_an_encoding_counts_for_the_images_of_its_own_message(tmp_path: Path) -> None:
    image_of = pytest.importorskip("PIL.Image")
    path = tmp_path / "run.mcap"
    pixels = np.full((4, 4, 3), BLUE[:3], np.uint8)
    left: dict[str, Any] = {"image": pixels, "encoding": "bgr8"}
    record(path, {"both": [{"left": left, "right": {"image": pixels}, "encoding": "mono8"}]})
    folder = exported(path, "png")
    found = [image_of.open(folder / f"000000.{side}.image.png") for side in ("left", "right")]
    assert [image.getpixel((0, 0)) for image in found] == [RED_FIRST[:3], BLUE[:3]]
    line = parsed((folder / "messages.jsonl").read_text())
    assert line["data"]["left"]["encoding"] == "bgr8"


def test_messages_in_messages_are_objects_whose_types_need_not_be_known(tmp_path: Path) -> None:
    path, folder = tmp_path / "run.mcap", tmp_path / "out"
    image = tb.ImageMessage(np.full((4, 4, 3), 7, np.uint8), encoding="bgr8")
    seen = Seen(tb.HeaderMessage(5, 6, "map"), [Box(np.arange(2.0), "cup")], image)
    record(path, {"a": [seen], "b": [{"inner": seen.header}]}, {"a": Seen})
    # In a process that has not defined the classes.
    command = ["recording", "export", str(path), "-o", str(folder), "--format", "npz"]
    subprocess.run([sys.executable, "-m", "tensorbus", *command], check=True)
    line = parsed((folder / "a/messages.jsonl").read_text())
    header = {"stamp_sec": 5, "stamp_nanosec": 6, "frame_id": "map", "sequence": 0}
    assert line["data"] == {
        "header": header,
        "boxes": [{"corner": {"tensor": "boxes.0.corner"}, "label": "cup"}],
        "camera": {
            "data": {"tensor": "camera.data"},
            "encoding": "bgr8",
            "width": 4,
            "height": 4,
        },
    }
    arrays = np.load(folder / "a" / line["files"]["boxes.0.corner"])
    assert arrays["boxes.0.corner"].tolist() == [0.0, 1.0]
    assert parsed((folder / "b/messages.jsonl").read_text())["data"] == {"inner": header}
