"""`tensorbus recording cut | merge | convert | export`."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.mcap_files import read_mcap
from tensorbus._cli.command import main

pytest.importorskip("typer")

COUNT = 4


def record(path: Path, first: int = 0) -> None:
    """Images and poses by turns, whose numbers begin with `first`."""
    with (
        tb.Publisher("camera/image", tb.ImageMessage, reliable=True) as images,
        tb.Publisher("pose", reliable=True) as poses,
        tb.Recorder(path, all=True, reliable=True) as recorder,
    ):
        assert images.wait_for_subscribers(timeout=PATIENCE)
        assert poses.wait_for_subscribers(timeout=PATIENCE)
        for number in range(first, first + COUNT):
            done = 2 * (number - first)
            images.publish(tb.ImageMessage(np.full((480, 640, 3), number, np.uint8)))
            eventually(lambda done=done: recorder.stats.messages == done + 1)
            poses.publish({"number": number, "at": np.arange(3.0) + number, "name": "arm"})
            eventually(lambda done=done: recorder.stats.messages == done + 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.mcap"
    record(path)
    return path


def numbers_of(recording: tb.Recording) -> list[int]:
    return [sample.data["number"] for sample in recording.select("pose")]


def test_cut_takes_topics_and_time(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, target = tb.Recording(path), path.parent / "cut.mcap"
    start = (found.time_ns(2) - found.start_ns) / 1e9
    end = (found.time_ns(6) - found.start_ns) / 1e9
    options = ("--start", f"{start:.9f}", "--end", f"{end:.9f}", "-o", str(target))
    assert main(["recording", "cut", str(path), "pose", *options]) == 0
    assert capsys.readouterr().out.startswith("2 messages, ")
    cut = tb.Recording(target)
    assert cut.topics.keys() == {"pose"}
    assert numbers_of(cut) == [1, 2]
    for one, other in zip(cut, found.select("pose")[1:3], strict=True):
        assert one.header == other.header
        assert (one.data["at"] == other.data["at"]).all()
    assert read_mcap(target).messages == {"pose": 2}

    whole = path.parent / "whole.mcap"
    assert main(["recording", "cut", str(path), "-o", str(whole)]) == 0
    images = tb.Recording(whole).select("camera/image", message_type=tb.ImageMessage)
    assert [int(sample.data.data[0, 0, 0]) for sample in images] == [*range(COUNT)]
    assert tb.Recording(whole).topics["camera/image"] == found.topics["camera/image"]


def test_merge_is_in_the_order_of_time(path: Path, tmp_path: Path) -> None:
    later, target = tmp_path / "later.mcap", tmp_path / "merged.mcap"
    record(later, COUNT)
    assert main(["recording", "merge", str(later), str(path), "-o", str(target)]) == 0
    merged = tb.Recording(target)
    assert numbers_of(merged) == [*range(2 * COUNT)]
    assert merged.topics["pose"].publishers == 2
    times = [merged.time_ns(index) for index in range(len(merged))]
    assert times == sorted(times)


def test_what_was_lost_is_told_of_in_the_copy(tmp_path: Path) -> None:
    path, target = tmp_path / "run.mcap", tmp_path / "cut.mcap"
    with tb.Publisher("topic", history=1, depth=1) as publisher:
        for number in range(3):
            publisher.publish(number)
        with tb.Recorder(path, "topic", depth=1) as recorder:
            eventually(lambda: recorder.stats.messages == 1)
            first = publisher.stats.sent
            while recorder.stats.lost == 0:
                publisher.publish(publisher.stats.sent)
            assert first == 3
    lost = tb.Recording(path).lost
    assert lost > 0
    assert main(["recording", "cut", str(path), "-o", str(target)]) == 0
    assert tb.Recording(target).lost == lost


def test_mistakes_are_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        (("cut", "none", "-o", "x.mcap"), "nothing was recorded on 'none'"),
        (("cut", "-o", str(path), "--overwrite"), "read and replaced at once"),
        (("cut", "-o", str(path)), "read and replaced at once"),
        (
            ("cut", "-o", "x.mcap", "--compress", "none=zstd"),
            "nothing was recorded on topic 'none'",
        ),
        (("export", "-o", str(path.parent)), "is not empty"),
        (("convert", "-o", str(path)), "exists:"),
        (("convert", "-o", str(path), "--overwrite"), "read and replaced at once"),
    ):
        assert main(["recording", arguments[0], str(path), *arguments[1:]]) == 1
        assert text in " ".join(capsys.readouterr().err.split())
    assert main(["recording", "export", str(path), "--format", "gif"]) == 2
    assert "--format gif: expected one of" in " ".join(capsys.readouterr().err.split())
    assert len(tb.Recording(path)) == 2 * COUNT


def test_damaged_messages_are_left_out_and_told(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(path.read_bytes())
    data[data.find(b"TBR1")] ^= 1
    path.write_bytes(data)
    target = path.parent / "cut.mcap"
    assert main(["recording", "cut", str(path), "-o", str(target)]) == 1
    assert "1 messages were left out" in capsys.readouterr().err
    assert len(tb.Recording(target)) == 2 * COUNT - 1


@pytest.mark.parametrize("kind", ["npz", "npy", "safetensors"])
def test_export_writes_arrays(path: Path, kind: str) -> None:
    if kind == "safetensors":
        pytest.importorskip("safetensors")
    folder = path.parent / "out"
    assert main(["recording", "export", str(path), "-o", str(folder), "--format", kind]) == 0
    assert sorted(each.name for each in folder.iterdir()) == ["camera_image", "pose"]
    lines = [json.loads(line) for line in (folder / "pose/messages.jsonl").open()]
    assert [line["data"]["number"] for line in lines] == [*range(COUNT)]
    assert lines[1]["data"]["at"] == {"tensor": "at"}
    file = folder / "pose" / lines[1]["files"]["at"]
    if kind == "npz":
        array = np.load(file)["at"]
    elif kind == "npy":
        array = np.load(file)
    else:
        from safetensors.numpy import load_file  # type: ignore[import-not-found, unused-ignore]

        array = load_file(file)["at"]
    assert array.tolist() == [1.0, 2.0, 3.0]


def test_export_writes_images(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    folder = path.parent / "out"
    arguments = ("camera/image", "-o", str(folder), "--format", "png")
    assert main(["recording", "export", str(path), *arguments]) == 0
    (_, *rest) = sorted((folder / "camera_image").glob("*.png"))
    assert len(rest) == COUNT - 1
    assert np.asarray(image.open(rest[0])).shape == (480, 640, 3)
    assert int(np.asarray(image.open(rest[0]))[0, 0, 0]) == 1
    other = path.parent / "other"
    assert main(["recording", "export", str(path), "pose", "-o", str(other), "--format", "png"])
    assert "tensor 'at': float64 of (3,) is no image" in capsys.readouterr().err


def test_no_format_of_export_mixes_up_names(path: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.mcap"
    names = ("x/y", "x_y", "a.b")
    with (
        tb.Publisher("a/b", reliable=True) as one,
        tb.Publisher("a_b", reliable=True) as other,
        tb.Recorder(odd, all=True, reliable=True),
    ):
        for publisher in (one, other):
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            arrays = [np.full(2, number) for number in range(len(names) + 1)]
            publisher.publish(dict(zip(names, arrays, strict=False)) | {"a": {"b": arrays[-1]}})
    for kind in ("npy", "npz"):
        folder = tmp_path / kind
        assert main(["recording", "export", str(odd), "-o", str(folder), "--format", kind]) == 0
        assert sorted(each.name for each in folder.iterdir()) == ["a_b", "a_b_2"]
        for place in folder.iterdir():
            line = json.loads((place / "messages.jsonl").read_text())
            inner = line["data"].pop("a")["b"]["tensor"]
            tensors = [line["data"][name]["tensor"] for name in names]
            for number, tensor in enumerate([*tensors, inner]):
                found = np.load(place / line["files"][tensor])
                assert (found if kind == "npy" else found[tensor]).tolist() == [number, number]


def test_convert_writes_what_foxglove_opens(path: Path, foxglove: ModuleType) -> None:
    target = path.parent / "foxglove.mcap"
    assert main(["recording", "convert", str(path), "-o", str(target)]) == 0
    reader = pytest.importorskip("mcap.reader")
    with open(target, "rb") as file:
        found = [
            (schema.name, channel.topic, message.log_time)
            for schema, channel, message in reader.make_reader(file).iter_messages()
            if schema is not None
        ]
    images = [each for each in found if each[0] == "foxglove.RawImage"]
    samples = tb.Recording(path).select("camera/image")
    assert [each[2] for each in images] == [one.header.timestamp_ns for one in samples]
    assert {each[1] for each in images} == {"/camera/image"}


@pytest.fixture
def foxglove() -> ModuleType:
    return pytest.importorskip("foxglove")
