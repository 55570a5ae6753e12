"""Playing what was recorded: `tb.Player`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, in_a_fork, tell

COUNT = 6


@pytest.fixture
def path(tmp_path: Path, torch: ModuleType) -> Path:
    """Images and poses, by turns, of reliable publishers."""
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("image", tb.ImageMessage, reliable=True, history=2, depth=COUNT) as images,
        tb.Publisher("pose", reliable=True, depth=COUNT) as poses,
        tb.Recorder(path, all=True, reliable=True),
    ):
        assert images.wait_for_subscribers(timeout=PATIENCE)
        assert poses.wait_for_subscribers(timeout=PATIENCE)
        for number in range(COUNT):
            images.publish(tb.ImageMessage(np.full((120, 160, 3), number, np.uint8)))
            poses.publish({"number": number, "at": torch.full((300,), float(number))})
    return path


@contextmanager
def played(path: Path, *topics: str, **options: Any) -> Iterator[tuple[tb.Player, tb.Subscriber]]:
    """A paused player, and a subscriber of the poses, which has been found."""
    with (
        tb.Subscriber(
            options.get("remap", {}).get("pose", "pose"), depth=COUNT, timeout=PATIENCE
        ) as poses,
        tb.Player(path, topics or "pose", paused=True, **options) as player,
    ):
        assert player.wait_for_subscribers(timeout=PATIENCE)
        yield player, poses


def test_subscribers_get_what_was_recorded(path: Path) -> None:
    recorded = [*tb.Recording(path).select("pose")]
    with played(path) as (player, poses):
        player.resume()
        for expected in recorded:
            sample = poses.receive()
            assert sample.data["number"] == expected.data["number"]
            assert bool((sample.data["at"] == expected.data["at"]).all())
            assert sample.header.sequence == expected.header.sequence
            assert sample.header.timestamp_ns == expected.header.timestamp_ns
            origin = sample.header.origin
            assert origin is not None
            assert origin.is_replay
            assert origin == ("replay:run.mcap", expected.header.publisher)
        assert player.wait(PATIENCE)
        stats = player.stats
    assert (stats.messages, stats.left, stats.bytes_copied) == (COUNT, 0, 0)
    assert stats.ended
    assert not stats.error


def test_publishers_look_as_they_did(path: Path) -> None:
    with tb.Player(path, paused=True, remap={"pose": "other"}):
        topics = {topic.name: topic for topic in tb.list_topics()}
    assert topics.keys() == {"image", "other"}
    (image,) = topics["image"].publishers
    assert image.machine == "replay:run.mcap"
    assert topics["image"].types[0].startswith("tensorbus.ImageMessage")


def test_typed_subscribers_and_history_work(path: Path) -> None:
    with tb.Player(path, "image", rate=1e6) as player:
        assert player.wait(PATIENCE)
        with tb.Subscriber("image", tb.ImageMessage, timeout=PATIENCE) as late:
            assert [int(late.receive().data.data[0, 0, 0]) for _ in range(2)] == [4, 5]


def test_it_pauses_steps_and_goes_on(path: Path) -> None:
    with played(path) as (player, poses):
        player.step()
        assert poses.receive().data["number"] == 0
        assert player.stats.paused
        assert "paused" in repr(player)
        player.step(2)
        assert [poses.receive().data["number"] for _ in range(2)] == [1, 2]
        player.rate = 1e6
        assert player.rate == 1e6
        player.resume()
        assert [poses.receive().data["number"] for _ in range(3)] == [3, 4, 5]


def test_a_loop_begins_again(path: Path) -> None:
    with played(path, loop=True, rate=1e6) as (player, poses):
        player.resume()
        samples = [poses.receive() for _ in range(2 * COUNT + 1)]
        assert [sample.data["number"] for sample in samples] == [*range(COUNT), *range(COUNT), 0]
        assert [sample.header.sequence for sample in samples] == [*range(2 * COUNT + 1)]


def test_a_window_is_counted_from_the_first_message(path: Path) -> None:
    recording = tb.Recording(path)
    poses = recording.select("pose")
    first = (poses.time_ns(2) - recording.start_ns) / 1e9
    last = (poses.time_ns(4) - recording.start_ns) / 1e9
    with played(path, start=first, end=last, remap={"pose": "other"}) as (player, others):
        player.resume()
        assert [others.receive().data["number"] for _ in range(2)] == [2, 3]
        assert player.wait(PATIENCE)
        assert others.stats.missed == 0


def test_the_clock_is_a_topic(path: Path) -> None:
    recording = tb.Recording(path)
    with (
        tb.Subscriber("clock", timeout=PATIENCE) as clock,
        tb.Player(path, rate=1e6, paused=True, clock="clock") as player,
    ):
        first = clock.receive().data
        assert first == {"time_ns": recording.start_ns, "rate": 1e6, "paused": True}
        player.resume()
        while (now := clock.receive().data)["time_ns"] < recording.end_ns:
            assert first["time_ns"] <= now["time_ns"]


def test_a_recorded_clock_gives_way_to_that_of_the_player(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    again = tmp_path / "again.mcap"
    with (
        tb.Player(path, paused=True, clock="clock", rate=1e6) as player,
        tb.Recorder(again, all=True, reliable=True),
    ):
        assert player.wait_for_subscribers(timeout=PATIENCE)
        player.resume()
        assert player.wait(PATIENCE)
    assert tb.Recording(again).topics["clock"].messages
    with tb.Player(again, paused=True, clock="clock") as player:
        assert player.stats.left == 2 * COUNT
        (publisher,) = next(each for each in tb.list_topics() if each.name == "clock").publishers
        assert publisher.machine == ""
    eventually(lambda: caplog.messages)
    assert "the recorded clock on topic 'clock' is left out" in caplog.messages[0]
    with tb.Player(again, paused=True, clock="time") as player:
        assert player.stats.left == len(tb.Recording(again))


def test_data_on_the_topic_of_the_clock_is_refused(path: Path) -> None:
    with pytest.raises(tb.InvalidArgument, match="clock: the recording has data on topic 'pose'"):
        tb.Player(path, paused=True, clock="pose")
    with tb.Player(path, "image", paused=True, clock="pose") as player:
        assert player.stats.left == COUNT


def test_what_it_publishes_can_be_recorded_and_played_again(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.mcap"
    with (
        tb.Player(path, paused=True) as player,
        tb.Recorder(again, all=True, reliable=True),
    ):
        assert player.wait_for_subscribers(timeout=PATIENCE)
        player.rate = 1e6
        player.resume()
        assert player.wait(PATIENCE)
    first, second = tb.Recording(path), tb.Recording(again)
    assert len(second) == len(first)
    for one, other in zip(first.select("pose"), second.select("pose"), strict=True):
        assert one.data["number"] == other.data["number"]
        assert one.header.timestamp_ns == other.header.timestamp_ns
        assert other.header.origin == ("replay:run.mcap", one.header.publisher)


def test_samples_stay_after_a_kill_of_the_player(path: Path, elsewhere: Elsewhere) -> None:
    def play(path: str) -> None:
        player = tb.Player(path, "pose", paused=True)
        assert player.wait_for_subscribers(timeout=PATIENCE)
        player.step(3)
        tell("playing")
        hear()

    with tb.Subscriber("pose", timeout=PATIENCE) as poses:
        other = elsewhere.start(play, str(path))
        assert other.hear() == "playing"
        samples = [poses.receive() for _ in range(3)]
        other.kill()
        os.remove(path)
        for number, sample in enumerate(samples):
            assert sample.data["number"] == number
            assert bool((sample.data["at"] == number).all())


def test_a_child_has_no_player(path: Path) -> None:
    with tb.Player(path, paused=True) as player:

        def use() -> None:
            with pytest.raises(tb.Forked, match="made before fork"):
                player.resume()

        in_a_fork(use)
        player.resume()


def test_mistakes_are_told(path: Path) -> None:
    for options, text in (
        ({"rate": 0}, "rate=0: expected a number above 0"),
        ({"rate": float("nan")}, "rate=nan"),
        ({"topics": "none"}, "topics: nothing was recorded on topic 'none'"),
        ({"remap": {"none": "some"}}, "remap: nothing was recorded on topic 'none'"),
        ({"start": -1}, "start=-1"),
    ):
        with pytest.raises(tb.InvalidArgument, match=text):
            tb.Player(path, paused=True, **options)
    with tb.Player(path, paused=True) as player, pytest.raises(tb.InvalidArgument, match="count=0"):
        player.step(0)
    with pytest.raises(FileNotFoundError):
        tb.Player(path.parent / "nowhere")
