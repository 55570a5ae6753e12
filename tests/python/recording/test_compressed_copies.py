"""`tensorbus recording cut | merge` of what is compressed, and of what is to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.mcap_files import read_mcap
from support.two_topics import two_topics
from tensorbus._cli.command import main
from tensorbus._recording.copying import copy_recordings

COUNT = 20
SIZE = 100_000


def record(path: Path, **options: Any) -> Path:
    with two_topics(path, COUNT, **options) as (pose, image):
        for number in range(COUNT):
            pose.publish({"id": number, "matrix": np.full((4, 4), number, "f8")})
            image.publish(np.full(SIZE, number, "u1"))
    return path


def require_copy(path: Path, of: Path) -> None:
    """The same messages, with the same times."""
    copy, original = tb.Recording(path), tb.Recording(of)
    assert (copy.recovered, copy.damage) == ("", "")
    for topic in ("pose", "image"):
        ours, theirs = copy.select(topic), original.select(topic)
        assert len(ours) == len(theirs) == COUNT
        for number in range(COUNT):
            assert ours.time_ns(number) == theirs.time_ns(number)
            assert ours[number].header.sequence == theirs[number].header.sequence
            data = ours[number].data
            found = data["matrix"] if topic == "pose" else data
            assert (found == number).all()
    assert read_mcap(path).messages == {"pose": COUNT, "image": COUNT}


def compressions_of(path: Path) -> dict[str, int]:
    """The kinds of chunks, and how many there are."""
    found: dict[str, int] = {}
    for index in read_mcap(path).summary.chunk_indexes:
        found[index.compression] = found.get(index.compression, 0) + 1
    return found


@pytest.mark.parametrize("how", ["zstd", "lz4"])
def test_what_is_compressed_stays_so(tmp_path: Path, how: str) -> None:
    path, target = record(tmp_path / "run.mcap", compress=how), tmp_path / "cut.mcap"
    assert main(["recording", "cut", str(path), "-o", str(target)]) == 0
    require_copy(target, path)
    assert compressions_of(target).keys() == {how}
    assert target.stat().st_size < 1.5 * path.stat().st_size


def test_each_message_keeps_its_own(tmp_path: Path) -> None:
    path = record(tmp_path / "run.mcap", compress={"pose": "zstd"})
    target = tmp_path / "merged.mcap"
    assert main(["recording", "merge", str(path), "-o", str(target)]) == 0
    require_copy(target, path)
    assert compressions_of(target).keys() == {"zstd", ""}
    only = tmp_path / "images.mcap"
    assert main(["recording", "cut", str(path), "image", "-o", str(only)]) == 0
    assert compressions_of(only).keys() <= {""}
    assert len(tb.Recording(only)) == COUNT


def test_files_of_several_compressions_are_merged(tmp_path: Path) -> None:
    names = ("none", "zstd", "lz4")
    files = [
        record(tmp_path / f"{how}.mcap", compress=None if how == "none" else how) for how in names
    ]
    target = tmp_path / "merged.mcap"
    assert main(["recording", "merge", *map(str, files), "-o", str(target)]) == 0
    assert compressions_of(target).keys() == {"", "zstd", "lz4"}
    merged = tb.Recording(target)
    assert len(merged) == 3 * 2 * COUNT
    assert merged.topics["pose"].publishers == 3
    numbers = [sample.data["id"] for sample in merged.select("pose")]
    assert numbers == [*range(COUNT)] * 3


@pytest.mark.parametrize("recorded", [None, "lz4"])
def test_all_is_compressed_or_nothing(tmp_path: Path, recorded: str | None) -> None:
    path = record(tmp_path / "run.mcap", compress=recorded)
    packed, plain = tmp_path / "packed.mcap", tmp_path / "plain.mcap"
    assert main(["recording", "cut", str(path), "-o", str(packed), "--compress", "zstd"]) == 0
    require_copy(packed, path)
    assert compressions_of(packed).keys() == {"zstd"}
    assert packed.stat().st_size < COUNT * SIZE / 10
    assert main(["recording", "merge", str(packed), "-o", str(plain), "--compress", "none"]) == 0
    require_copy(plain, path)
    assert compressions_of(plain) == {}
    assert plain.stat().st_size > COUNT * SIZE


def test_a_topic_that_is_named_is_compressed_and_others_stay(tmp_path: Path) -> None:
    path = record(tmp_path / "run.mcap", compress={"pose": "zstd"})
    target = tmp_path / "cut.mcap"
    command = ["recording", "cut", str(path), "-o", str(target), "--compress", "image=lz4"]
    assert main(command) == 0
    require_copy(target, path)
    assert compressions_of(target).keys() == {"zstd", "lz4"}
    freed = tmp_path / "freed.mcap"
    command = ["recording", "cut", str(target), "-o", str(freed), "--compress", "pose=none"]
    assert main(command) == 0
    require_copy(freed, path)
    assert compressions_of(freed).keys() == {"", "lz4"}


def test_a_chunk_that_is_damaged_is_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, target = record(tmp_path / "run.mcap", compress="zstd"), tmp_path / "cut.mcap"
    chunk = read_mcap(path).summary.chunk_indexes[0]
    with path.open("r+b") as file:
        file.seek(chunk.chunk_start_offset + 60)
        file.write(b"\xff" * 16)
    lost = sum(1 for index in range(2 * COUNT) if is_damaged(path, index))
    assert lost
    assert main(["recording", "cut", str(path), "-o", str(target)]) == 1
    assert f"{lost} " in capsys.readouterr().err
    assert len(tb.Recording(target)) == 2 * COUNT - lost


def is_damaged(path: Path, index: int) -> bool:
    try:
        tb.Recording(path)[index]
    except tb.InvalidArgument:
        return True
    return False


def test_mistakes_name_the_option(tmp_path: Path) -> None:
    path, target = record(tmp_path / "run.mcap"), tmp_path / "cut.mcap"
    with pytest.raises(tb.InvalidArgument, match="compress: compression 'bz2' is not known"):
        copy_recordings([tb.Recording(path)], target, compress="bz2")
    with pytest.raises(tb.InvalidArgument, match="compress: "):
        copy_recordings([tb.Recording(path)], target, compress={"pose": "zip"})
    assert not target.exists()
    assert main(["recording", "cut", str(path), "--compress", "pose=", "-o", str(target)]) == 2
