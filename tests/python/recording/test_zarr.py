"""`tensorbus recording export --format zarr`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from recorded_topics import record
from tensorbus._cli.command import main
from tensorbus._recording.formats import zarr_arrays

pytest.importorskip("typer")
zarr = pytest.importorskip("zarr")


def export(path: Path, *topics: str, status: int = 0) -> Path:
    folder = path.with_suffix("")
    options = ("-o", str(folder), "--format", "zarr")
    assert main(["recording", "export", str(path), *topics, *options]) == status
    return folder


def group_of(folder: Path, topic: str) -> Any:
    return zarr.open_group(str(folder / topic / "data.zarr"), mode="r")


def test_zarr_reads_an_array_for_each_tensor_with_the_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.mcap"
    images = [np.full((4, 5, 3), number, np.uint8) for number in range(5)]
    record(
        path,
        {
            "camera/image": [{"image": image, "id": 7 + n} for n, image in enumerate(images)],
            "pose": [{"at": np.arange(3.0) + n, "scale": np.float32(n)} for n in range(3)],
            "lone": [np.arange(2, dtype=np.int16)],
            "text": ["a", "b"],
        },
    )
    folder = export(path)
    assert capsys.readouterr().out.startswith("11 messages, 3 files: ")
    group = group_of(folder, "camera_image")
    assert group.metadata.zarr_format == 3
    assert {*group.array_keys()} == {"image", "time_ns", "timestamp_ns", "sequence"}
    image = group["image"]
    assert (image.shape, image.dtype, image.chunks) == ((5, 4, 5, 3), np.uint8, (1, 4, 5, 3))
    assert (image[:] == images).all()
    assert (image[3] == 3).all()
    recorded = tb.Recording(path).select("camera/image")
    assert group["time_ns"][:].tolist() == [sample.time_ns for sample in recorded]
    assert group["timestamp_ns"][:].tolist() == [each.header.timestamp_ns for each in recorded]
    assert group["sequence"][:].tolist() == [0, 1, 2, 3, 4]
    lines = (folder / "camera_image" / "messages.jsonl").read_text().splitlines()
    assert [json.loads(line)["data"]["id"] for line in lines] == [7, 8, 9, 10, 11]
    assert json.loads(lines[0])["files"] == {"image": "data.zarr/image"}
    assert group_of(folder, "pose")["at"][:].tolist() == [[n, n + 1, n + 2] for n in range(3)]
    assert group_of(folder, "lone")["data"][:].tolist() == [[0, 1]]
    assert group_of(folder, "text")["sequence"][:].tolist() == [0, 1]


def test_messages_fill_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zarr_arrays, "_SHARD_BYTES", 1000)
    path = tmp_path / "run.mcap"
    arrays = [np.full((10, 5), number, np.int32) for number in range(12)]  # 200 bytes each
    record(path, {"small": arrays, "large": [np.zeros(300) + n for n in range(3)]})
    folder = export(path)
    small, large = (group_of(folder, name)["data"] for name in ("small", "large"))
    assert (small.chunks, small.shards) == ((1, 10, 5), (5, 10, 5))
    assert (small[:] == arrays).all()
    assert (large.chunks, large.shards) == ((1, 300), None)
    assert large[:, 0].tolist() == [0, 1, 2]
    shards = [each for each in (folder / "small/data.zarr/data/c").rglob("*") if each.is_file()]
    assert len(shards) == 3


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([np.zeros((2, 3)), np.zeros((2, 4))], "'data' of float64 (2, 4), the first one of"),
        ([np.zeros(2), np.zeros(2, np.float32)], "float32 (2,), the first one of float64 (2,)"),
        ([{"a": np.zeros(2)}, {"b": np.zeros(2)}], "has the tensors ['b'], the first one ['a']"),
        ([{"a": np.zeros(2)}, {"id": 7}], "has the tensors [], the first one ['a']"),
        ([np.zeros(2, [("x", "i4"), ("y", "f8")])] * 2, "'data' has records"),
    ],
)
def test_a_ragged_topic_is_refused_as_a_whole_and_others_are_written(
    messages: list[Any], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.mcap"
    record(path, {"ragged": [messages[0], *messages, messages[0]], "even": [np.zeros(2)] * 2})
    folder = export(path, status=1)
    said = capsys.readouterr()
    assert said.out.startswith("2 messages, 1 files: ")
    assert said.err.startswith("tensorbus: topic 'ragged': 4 messages were left out")
    assert why in said.err
    assert "Export this topic with --format npz or webdataset" in said.err
    assert [each.name for each in folder.iterdir()] == ["even"]
    assert group_of(folder, "even")["data"].shape == (2, 2)


def test_names_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    names = ("time_ns", "a/b", "a_b", "__x", "zarr.json", "c")
    record(path, {"topic": [{name: np.full(2, n) for n, name in enumerate(names)}] * 2})
    folder = export(path)
    (line, _) = (folder / "topic/messages.jsonl").read_text().splitlines()
    files = json.loads(line)["files"]
    assert len({*files.values()}) == len(names)
    for number, name in enumerate(names):
        array = zarr.open_array(str(folder / "topic" / files[name]), mode="r")
        assert array[:].tolist() == [[number] * 2] * 2


def test_empty_tensors_and_dtypes(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    kinds = ("bool", "uint8", "int64", "float16", "float32", "complex64")
    message = {kind: np.ones((2, 2), kind) for kind in kinds} | {"none": np.zeros((0, 3))}
    record(path, {"topic": [message] * 3})
    group = group_of(export(path), "topic")
    for kind in kinds:
        assert group[kind].dtype == kind
        assert (group[kind][:] == 1).all()
    assert group["none"].shape == (3, 0, 3)


def test_a_missing_package_is_named_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.mcap"
    record(path, {"topic": [1]})
    monkeypatch.setitem(sys.modules, "zarr", None)
    command = ["recording", "export", str(path), "-o", str(tmp_path / "out")]
    assert main([*command, "--format", "zarr"]) == 1
    assert "pip install 'tensorbus[zarr]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
