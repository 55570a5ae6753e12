"""Recorders that write several files, or only when they are told to."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, tell
from support.mcap_files import read_mcap
from support.screens.commands import program
from tensorbus._cli.command import main


def ids_of(path: Path) -> list[int]:
    return [sample.data["id"] for sample in tb.Recording(path)]


def message(number: int, size: int = 1000) -> dict[str, object]:
    return {"id": number, "data": np.full(size, number % 256, np.uint8)}


def test_a_snapshot_has_all_that_was_published_before_it(tmp_path: Path) -> None:
    with (
        tb.Publisher("pose", reliable=True, timeout=PATIENCE) as pose,
        tb.Recorder(tmp_path / "run.mcap", "pose", snapshot=3600) as recorder,
    ):
        assert pose.wait_for_subscribers(timeout=PATIENCE)
        for count in range(1, 20):
            pose.publish({"id": count})
            kept = tb.Recording(recorder.snapshot(timeout=PATIENCE))
            assert [sample.data["id"] for sample in kept] == [count]


def test_files_are_split_by_size(tmp_path: Path) -> None:
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(tmp_path / "run.mcap", "topic", reliable=True, split_size=20_000) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(50):
            publisher.publish(message(number))
        recorder.close()
        stats = recorder.stats
    files = sorted(tmp_path.glob("run*"))
    assert [file.name for file in files] == [f"run-{n:04}.mcap" for n in range(1, len(files) + 1)]
    assert (stats.files, stats.messages, stats.lost) == (len(files), 50, 0)
    assert stats.bytes == sum(file.stat().st_size for file in files)
    assert len(files) > 2
    assert [number for file in files for number in ids_of(file)] == [*range(50)]
    for file in files:
        assert tb.Recording(file).recovered == ""
        assert 0 < sum(read_mcap(file).messages.values()) < 20
    target = tmp_path / "all.mcap"
    assert main(["recording", "merge", *map(str, files), "-o", str(target)]) == 0
    assert ids_of(target) == [*range(50)]


def test_a_message_larger_than_a_file_has_its_own(tmp_path: Path) -> None:
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(tmp_path / "run", "topic", reliable=True, split_size=1000),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(3):
            publisher.publish(message(number, 100_000))
    assert [ids_of(file) for file in sorted(tmp_path.glob("run*"))] == [[0], [1], [2]]
    assert (tmp_path / "run-0001").exists()


@pytest.mark.parametrize("option", ["split_size", "snapshot"])
def test_a_later_file_of_another_run_is_found_at_the_beginning(tmp_path: Path, option: str) -> None:
    for name in ("run-1.mcap", "run-0002.mcap.old", "run-00x2.mcap", "other-0002.mcap"):
        (tmp_path / name).touch()  # none of these
    tb.Recorder(tmp_path / "run.mcap", "topic", **{option: 1000}).close()
    (tmp_path / "run-0001.mcap").unlink(missing_ok=True)
    (tmp_path / "run-0002.mcap").touch()
    with pytest.raises(tb.InvalidArgument, match=r"run-0002\.mcap.*it exists"):
        tb.Recorder(tmp_path / "run.mcap", "topic", **{option: 1000})
    tb.Recorder(tmp_path / "run.mcap", "topic", overwrite=True, **{option: 1000}).close()


def test_files_are_split_by_time(tmp_path: Path) -> None:
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(tmp_path / "run.mcap", "topic", reliable=True, split_duration=1e-9) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(3):
            publisher.publish(message(number))
            eventually(lambda number=number: recorder.stats.messages == number + 1)
    assert [ids_of(file) for file in sorted(tmp_path.glob("run*"))] == [[0], [1], [2]]


def test_a_snapshot_has_what_was_kept(tmp_path: Path) -> None:
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(tmp_path / "run.mcap", "topic", reliable=True, snapshot=3600) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(5):
            publisher.publish(message(number))
        eventually(lambda: recorder.stats.buffered_bytes > 5 * 1500)
        assert recorder.stats.messages == 0
        assert not [*tmp_path.glob("run*")]
        first = recorder.snapshot(timeout=PATIENCE)
        assert first == str(tmp_path / "run-0001.mcap")
        assert ids_of(Path(first)) == [*range(5)]
        assert recorder.stats.buffered_bytes == 0
        publisher.publish(message(5))
        eventually(lambda: recorder.stats.buffered_bytes > 0)
        assert ids_of(Path(recorder.snapshot())) == [5]
        assert ids_of(Path(recorder.snapshot())) == []
        stats = recorder.stats
        recorder.close()
        with pytest.raises(tb.Closed):
            recorder.snapshot()
    assert (stats.files, stats.messages, stats.lost) == (3, 6, 0)
    assert len([*tmp_path.glob("run*")]) == 3


def test_what_is_kept_is_bounded_by_bytes_and_by_time(tmp_path: Path) -> None:
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(
            tmp_path / "a.mcap", "topic", reliable=True, snapshot=3600, buffer=50_000
        ) as few,
        tb.Recorder(tmp_path / "b.mcap", "topic", reliable=True, snapshot=1e-6) as short,
    ):
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        for number in range(100):
            publisher.publish(message(number, 10_000))
        publisher.publish({"id": 100, "last": True})
        eventually(lambda: few.stats.buffered_bytes > 0)
        eventually(lambda: publisher.stats.bytes_in_flight < 60_000)
        kept = ids_of(Path(few.snapshot()))
        assert 2 < len(kept) < 7
        assert kept == [*range(101 - len(kept), 101)]
        assert ids_of(Path(short.snapshot())) == []
        assert few.stats.lost == 0


def test_a_recorder_is_closed_at_once_beside_a_publisher_that_is_stopped(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    """Its link never comes: it is stopped before the recorder is made."""

    def publish() -> None:
        with tb.Publisher("topic"):
            tell("there")
            signal.pause()

    other = elsewhere.start(publish)
    other.hear()
    other.stop()
    try:
        recorder = tb.Recorder(tmp_path / "run.mcap", "topic")
        recorder.close()
    finally:
        other.kill()
    assert len(tb.Recording(tmp_path / "run.mcap")) == 0


def test_one_that_keeps_lets_go_of_all_when_it_is_closed(tmp_path: Path) -> None:
    with tb.Publisher("topic", reliable=True, timeout=PATIENCE) as publisher:
        recorder = tb.Recorder(tmp_path / "run.mcap", "topic", snapshot=3600)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(5):
            publisher.publish(message(number, 100_000))
        recorder.close()
        assert recorder.stats.buffered_bytes == 0
        eventually(lambda: publisher.stats.bytes_in_flight == 0)
        assert recorder.stats.lost == 0


def test_a_topic_with_many_samples_takes_none_of_another_one(tmp_path: Path) -> None:
    """A subscriber may hold 16,384 samples of a publisher; then the oldest of its topic leave."""
    count = 17_000
    with (
        tb.Publisher("slow", reliable=True, timeout=PATIENCE) as slow,
        tb.Publisher("fast", reliable=True, timeout=PATIENCE) as fast,
        tb.Recorder(
            tmp_path / "run.mcap", ["slow", "fast"], reliable=True, snapshot=3600
        ) as recorder,
    ):
        assert slow.wait_for_subscribers(timeout=PATIENCE)
        assert fast.wait_for_subscribers(timeout=PATIENCE)
        slow.publish(np.zeros(1))
        eventually(lambda: recorder.stats.buffered_bytes > 0)
        for number in range(count):
            fast.publish(np.full(1, number))
        recording = tb.Recording(recorder.snapshot(timeout=PATIENCE))
        assert recorder.stats.lost == 0
    assert len(recording.select("slow")) == 1
    numbers = [int(one.data[0]) for one in recording.select("fast")]
    assert 14_000 < len(numbers) < count
    assert numbers == [*range(count - len(numbers), count)]


@pytest.fixture
def stopped(elsewhere: Elsewhere) -> Iterator[str]:
    """A topic whose publisher is stopped before a recorder is made: its link never comes."""

    def publish() -> None:
        with tb.Publisher("stopped"):
            tell("there")
            signal.pause()

    other = elsewhere.start(publish)
    other.hear()
    other.stop()
    yield "stopped"
    other.kill()


@contextmanager
def publishing(publisher: tb.Publisher, period: float) -> Iterator[list[int]]:
    """Meanwhile a thread publishes numbers; the list has the last one."""
    last = [-1]
    ended = threading.Event()

    def publish() -> None:
        while not ended.wait(period):
            publisher.publish({"id": last[0] + 1})
            last[0] += 1

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield last
    finally:
        ended.set()
        thread.join()


def test_while_close_awaits_a_link_other_topics_are_recorded(tmp_path: Path, stopped: str) -> None:
    """It waits for 5 s: far longer than a queue lasts, which is for 1 s."""
    path = tmp_path / "run.mcap"
    with tb.Publisher("fast", depth=50) as fast, tb.Recorder(path, ["fast", stopped]) as recorder:
        assert fast.wait_for_subscribers(timeout=PATIENCE)
        with publishing(fast, 0.02) as last:
            eventually(lambda: last[0] > 5)
            number = last[0]
            recorder.close()
        assert recorder.stats.lost == 0
    assert number in ids_of(path)


def test_what_cannot_be_written_for_a_snapshot_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with (
        tb.Publisher("topic", reliable=True, timeout=PATIENCE) as publisher,
        tb.Recorder(folder / "run.mcap", "topic", snapshot=3600) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(100):
            publisher.publish(message(number))
        folder.rmdir()
        with pytest.raises(tb.Closed):
            recorder.snapshot(timeout=PATIENCE)
        with pytest.raises(tb.Error, match=r"run-0001\.mcap"):
            recorder.close()
        assert (recorder.stats.messages, recorder.stats.lost) == (0, 100)


def test_mistakes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    for options, text in (
        ({"split_size": 0}, "split_size=0"),
        ({"split_duration": 0}, "split_duration=0"),
        ({"snapshot": -1}, "snapshot=-1"),
        ({"snapshot": 1, "split_size": 1}, "cannot be split"),
    ):
        with pytest.raises(tb.InvalidArgument, match=text):
            tb.Recorder(path, "topic", **options)
    (tmp_path / "run-0001.mcap").touch()
    with pytest.raises(tb.InvalidArgument, match="it exists"):
        tb.Recorder(path, "topic", snapshot=1)
    with (
        tb.Recorder(path, "topic") as recorder,
        pytest.raises(tb.InvalidArgument, match="snapshot"),
    ):
        recorder.snapshot()


def test_a_command_and_a_signal_write_snapshots(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record = [program(), "record", "topic", "--snapshot", "1000s", "--reliable"]
    recorder = [program(), "recorder"]
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        subprocess.Popen(
            [*record, "-o", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr
        assert process.stdout
        assert process.stderr.readline().startswith("recording to ")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(4):
            publisher.publish(message(number))

        def held() -> int:
            status = subprocess.check_output([*recorder, "status", "--json"])
            return int(json.loads(status)["buffered_bytes"])

        eventually(lambda: held() > 4 * 1500)
        file = Path(subprocess.check_output([*recorder, "snapshot"], text=True).strip())
        assert file == tmp_path / "run-0001.mcap"
        assert ids_of(file) == [*range(4)]
        publisher.publish(message(4))
        eventually(lambda: held() > 0)
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline().strip() == str(tmp_path / "run-0002.mcap")
        assert ids_of(tmp_path / "run-0002.mcap") == [4]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert out.startswith("5 messages of 1 topics, ")
