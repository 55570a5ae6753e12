"""A recorder measures intervals by the monotonic clock: a step of the wall clock changes none."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.clock_step import environment, step
from support.harness import PATIENCE, eventually

_PAUSE = 0.3  # seconds between the two halves of what is recorded
_EACH = 10  # messages of a half


def _recorded(path: Path, seconds: int, **options: Any) -> None:
    """Records two halves, between which the wall clock steps; prints the file and the time."""
    with (
        tb.Publisher("topic", reliable=True, timeout=PATIENCE) as publisher,
        tb.Recorder(path, "topic", reliable=True, **options) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        begun = time.monotonic()
        for number in range(_EACH):
            publisher.publish(number)
        eventually(lambda: recorder.stats.messages == _EACH or "snapshot" in options)
        time.sleep(_PAUSE)  # an interval, which the recording has
        step(seconds)
        for number in range(_EACH, 2 * _EACH):
            publisher.publish(number)
        lasted = time.monotonic() - begun
        found = recorder.snapshot(PATIENCE) if "snapshot" in options else str(path)
        recorder.close()
        print(json.dumps({"path": found, "files": recorder.stats.files, "lasted": lasted}))


def recorded(folder: Path, seconds: int, **options: Any) -> dict[str, Any]:
    """What `_recorded` says, in a process in which the wall clock steps."""
    arguments = json.dumps([str(folder / "run.mcap"), seconds, options])
    done = subprocess.run(
        [sys.executable, __file__, arguments],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_times_of_messages_have_the_intervals_that_passed(tmp_path: Path, seconds: int) -> None:
    found = recorded(tmp_path, seconds)
    recording = tb.Recording(found["path"])
    assert [sample.data for sample in recording] == [*range(2 * _EACH)]
    assert _PAUSE / 2 < recording.duration < found["lasted"] + PATIENCE
    between = recording.time_ns(_EACH) - recording.time_ns(_EACH - 1)
    assert between > _PAUSE / 2 * 1e9
    stamps = [sample.header.timestamp_ns for sample in recording]
    assert abs(stamps[-1] - stamps[0]) > 3000e9  # the publisher's, which are those of the wall


def test_a_snapshot_has_what_was_published_before_a_step_forward(tmp_path: Path) -> None:
    found = recorded(tmp_path, 3600, snapshot=600)
    assert [sample.data for sample in tb.Recording(found["path"])] == [*range(2 * _EACH)]


def test_a_file_is_split_by_the_time_that_passed(tmp_path: Path) -> None:
    assert recorded(tmp_path, -3600, split_duration=_PAUSE / 2)["files"] >= 2


if __name__ == "__main__":
    target, stepped, given = json.loads(sys.argv[1])
    _recorded(Path(target), stepped, **given)
