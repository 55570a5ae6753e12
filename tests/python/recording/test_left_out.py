"""`tensorbus recording export | convert` of recordings in which some topics cannot be written."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tensorbus as tb
from recorded_topics import record
from support.harness import PATIENCE
from support.mcap_files import add_json
from support.screens.commands import parsed, run_program
from tensorbus._cli.command import main

pytest.importorskip("typer")

LONG = "long/" + "x" * 300


@pytest.fixture
def path(tmp_path: Path, torch: ModuleType) -> Path:
    """Images and a pose, and between them sparse tensors, a long name and foreign messages."""
    path = tmp_path / "run.mcap"
    record(
        path,
        {
            "a/image": [np.full((4, 4, 3), number, np.uint8) for number in range(3)],
            "graph": [torch.eye(3).to_sparse()] * 2,
            LONG: [np.arange(3.0)],
            "mixed": [torch.eye(3).to_sparse(), np.zeros(2)],
            "z/pose": [{"at": np.zeros(7)}],
        },
    )
    add_json(path, "foreign", "robot/State")
    return path


@pytest.mark.parametrize("kind", ["npz", "npy", "safetensors"])
def test_export_writes_all_others_and_says_why_not_these(
    path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    if kind == "safetensors":
        pytest.importorskip("safetensors")
    folder = path.parent / "out"
    assert main(["recording", "export", str(path), "-o", str(folder), "--format", kind]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("6 messages, 6 files: ")
    lines = sorted(said.err.splitlines())
    assert len(lines) == 3, lines
    assert "topic 'foreign': 1 messages were left out" in lines[0]
    assert "encoded as 'json'" in lines[0]
    assert "topic 'graph': 2 messages were left out" in lines[1]
    assert "topic 'mixed': 1 messages were left out" in lines[2]
    found = {place.name: place for place in folder.iterdir()}
    names = ["a_image", "long_" + "x" * 195, "mixed", "z_pose"]
    assert sorted(found) == names
    for name, topic in zip(names, ("a/image", LONG, "mixed", "z/pose"), strict=True):
        for text in (found[name] / "messages.jsonl").read_text().splitlines():
            line = parsed(text)
            assert line["topic"] == topic
            assert all((found[name] / file).exists() for file in line["files"].values())


def test_export_of_images_leaves_no_file_of_a_message_that_is_left_out(
    path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("PIL")
    half = tmp_path / "half.mcap"
    image = np.zeros((4, 4, 3), np.uint8)
    record(half, {"both": [{"image": image, "pose": np.zeros(7)}, {"image": image}]})
    folder = tmp_path / "out"
    assert main(["recording", "export", str(half), "-o", str(folder), "--format", "png"]) == 1
    assert "'pose': float64 of (7,) is no image" in capsys.readouterr().err
    assert sorted(file.name for file in (folder / "both").iterdir()) == [
        "000001.image.png",
        "messages.jsonl",
    ]


@pytest.mark.skipif(
    not shutil.which("unshare")
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="no file system of its own can be mounted here",
)
@pytest.mark.parametrize(
    "kind", ["npz", "safetensors", "png", "mcap", "mp4", "mkv", "webdataset", "zarr"]
)
def test_a_full_disk_ends_the_command(tmp_path: Path, kind: str) -> None:
    packages = {"png": "PIL", "mcap": "foxglove", "mp4": "av", "mkv": "av"}
    packages |= {kind: kind for kind in ("safetensors", "webdataset", "zarr")}
    pytest.importorskip(packages.get(kind, "numpy"))
    disk, path = tmp_path / "disk", tmp_path / "run.mcap"
    disk.mkdir()
    noise = np.random.default_rng(1).integers(0, 255, (9, 100, 100, 3), np.uint8)
    record(path, {"a": [*noise[:8]], "b": [noise[8]]})
    what = ("convert",) if kind == "mcap" else ("export", "--format", kind)
    target = disk / f"out.{kind}"
    command = (sys.executable, "-m", "tensorbus", "recording", *what, path, "-o", target)
    size = "8k" if kind in ("mp4", "mkv") else "100k"  # videos of noise are small, too
    mounted = f'mount -t tmpfs -o size={size} none {disk} || exit 9; "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted, "sh", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert ("could not be written" if kind == "mcap" else "No space left") in done.stderr
    assert "left out" not in done.stderr
    assert "Traceback" not in done.stderr


def test_export_takes_a_time(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, folder = tb.Recording(path), path.parent / "out"
    images = found.select("a/image")
    start = f"{(images.time_ns(1) - found.start_ns) / 1e9:.9f}"
    end = f"{(images.time_ns(2) - found.start_ns) / 1e9:.9f}"
    options = ("-o", str(folder), "--start", start, "--end", end)
    assert main(["recording", "export", str(path), "a/image", *options]) == 0
    assert capsys.readouterr().out.startswith("1 messages, 1 files: ")
    (line,) = (folder / "a_image" / "messages.jsonl").read_text().splitlines()
    assert parsed(line)["time_ns"] == images.time_ns(1)
    assert (np.load(folder / "a_image" / "000000.npz")["data"] == 1).all()


def test_an_unknown_topic_is_told_before_anything_is_written(path: Path) -> None:
    folder = path.parent / "out"
    assert main(["recording", "export", str(path), "a/image", "none", "-o", str(folder)]) == 1
    assert not folder.exists()


def test_damage_of_the_file_is_told_after_all_that_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = tmp_path / "run.mcap", tmp_path / "out"
    record(path, {"a": [np.zeros(1000)] * 4, "b": [np.zeros(1000)] * 4})
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(whole[:half] + bytes(len(whole) - half - 8) + whole[-8:])
    found = tb.Recording(path)
    assert found.damage.startswith(f"file {str(path)!r}: ")
    assert main(["recording", "export", str(path), "-o", str(folder)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith(f"{len(found)} messages")
    assert said.err == f"tensorbus: {found.damage}\n"


def test_convert_writes_all_others_and_says_why_not_these(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("foxglove")
    from mcap import reader

    target = path.parent / "foxglove.mcap"
    assert main(["recording", "convert", str(path), "-o", str(target)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("6 messages: ")
    lines = sorted(line.partition(" messages")[0] for line in said.err.splitlines())
    topics = [("foreign", 1), ("graph", 2), ("mixed", 1)]
    assert lines == [f"tensorbus: topic {topic!r}: {count}" for topic, count in topics]
    with target.open("rb") as file:
        written = [channel.topic for _, channel, _ in reader.make_reader(file).iter_messages()]
    assert written == ["/a/image"] * 3 + [f"/{LONG}", "/mixed", "/z/pose"]


def test_convert_says_which_topic_has_changed_its_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("foxglove")
    path = tmp_path / "run.mcap"
    record(path, {"a": [np.zeros((4, 4, 3), np.uint8), 5, 6], "b": [7]})
    assert main(["recording", "convert", str(path), "-o", str(tmp_path / "foxglove.mcap")]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("2 messages: ")
    assert "topic 'a': 2 messages were left out" in said.err
    assert "'/a' has messages of another kind already" in said.err


NOT_FINITE = {"range": math.nan, "limits": [0.5, math.inf, {"least": -math.inf}]}


def test_numbers_that_json_has_not_are_texts_in_an_export(tmp_path: Path) -> None:
    path, folder = tmp_path / "run.mcap", tmp_path / "out"
    record(path, {"scan": [NOT_FINITE]})
    assert main(["recording", "export", str(path), "-o", str(folder)]) == 0
    line = parsed((folder / "scan" / "messages.jsonl").read_text())
    assert line["data"] == {"range": "NaN", "limits": [0.5, "Infinity", {"least": "-Infinity"}]}


def test_numbers_that_json_has_not_are_texts_for_foxglove(tmp_path: Path) -> None:
    pytest.importorskip("foxglove")
    from mcap import reader

    path, target = tmp_path / "run.mcap", tmp_path / "foxglove.mcap"
    record(path, {"scan": [NOT_FINITE]})
    assert main(["recording", "convert", str(path), "-o", str(target)]) == 0
    with target.open("rb") as file:
        ((_, _, message),) = reader.make_reader(file).iter_messages()
    assert parsed(message.data.decode()) == {
        "range": "NaN",
        "limits[0]": 0.5,
        "limits[1]": "Infinity",
        "limits[2]/least": "-Infinity",
    }


def test_info_names_the_schema_of_another_program(path: Path) -> None:
    rows = run_program("recording", "info", path).lines
    assert ["foreign", "robot/State", "1"] in [row[:3] for row in rows]
    assert tb.Recording(path).topics["foreign"].types == ("robot/State",)
    with pytest.raises(tb.TypeMismatch, match="foreign"):
        tb.Recording(path).select("foreign", message_type=tb.PoseMessage)
