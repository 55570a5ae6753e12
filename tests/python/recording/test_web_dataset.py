"""`tensorbus recording export --format webdataset`."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from recorded_topics import record
from tensorbus._cli.command import main
from tensorbus._recording.formats import web_dataset

pytest.importorskip("typer")
webdataset = pytest.importorskip("webdataset")


def export(path: Path) -> Path:
    folder = path.with_suffix("")
    options = ("-o", str(folder), "--format", "webdataset")
    assert main(["recording", "export", str(path), *options]) == 0
    return folder


def samples_in(shards: list[Path]) -> list[dict[str, Any]]:
    urls = [*map(str, sorted(shards))]
    return [*webdataset.WebDataset(urls, shardshuffle=False).decode()]


def test_webdataset_reads_the_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.mcap"
    images = [np.full((4, 5, 3), number, np.uint8) for number in range(3)]
    record(
        path,
        {
            "camera/image": [{"image": image, "id": 7 + n} for n, image in enumerate(images)],
            "pose": [{"at": np.arange(3.0)}],
        },
    )
    folder = export(path)
    assert capsys.readouterr().out.startswith("4 messages, 2 files: ")
    found = samples_in([*(folder / "camera_image").iterdir()])
    recorded = tb.Recording(path).select("camera/image")
    assert [sample["json"]["time_ns"] for sample in found] == [one.time_ns for one in recorded]
    assert [sample["json"]["data"]["id"] for sample in found] == [7, 8, 9]
    for sample, image in zip(found, images, strict=True):
        assert sample["json"]["files"] == {"image": "image.npy"}
        assert (sample["image.npy"] == image).all()


def test_names_that_webdataset_would_change_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    names = ("Image", "image", "_image", "a.b", "__key__", "json")
    record(path, {"topic": [{name: np.full(2, n) for n, name in enumerate(names)}]})
    (sample,) = samples_in([*(export(path) / "topic").iterdir()])
    files = sample["json"]["files"]
    assert len({*files.values()}) == len(names)
    assert [int(sample[files[name]][0]) for name in names] == [*range(len(names))]


def test_shards_are_begun_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_dataset, "_MAX_SHARD_BYTES", 2000)
    path = tmp_path / "100%d %06d.mcap"
    record(path, {"topic": [np.full(100, number) for number in range(5)]})
    shards = sorted((export(path) / "topic").iterdir())
    assert [shard.name for shard in shards] == [f"00000{number}.tar" for number in range(3)]
    assert len(samples_in(shards)) == 5
    with tarfile.open(shards[-1]) as tar:
        assert sorted(tar.getnames()) == ["000004.data.npy", "000004.json"]


def test_a_missing_package_is_named_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.mcap"
    record(path, {"topic": [1]})
    monkeypatch.setitem(sys.modules, "webdataset", None)
    command = ["recording", "export", str(path), "-o", str(tmp_path / "out")]
    assert main([*command, "--format", "webdataset"]) == 1
    assert "pip install 'tensorbus[webdataset]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
