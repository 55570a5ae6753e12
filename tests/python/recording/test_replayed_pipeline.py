"""The demo's model makes of replayed frames what it made of the camera's, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.repository import ROOT

DEMO = ROOT / "examples" / "camera_pipeline"
FRAMES, FEATURES = "camera/image", "model/features"  # as its plan.py has them
COUNT = 4


@contextmanager
def model(results: Path) -> Iterator[None]:
    results.mkdir()
    command = [sys.executable, str(DEMO / "model.py"), str(results), str(COUNT)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield
            _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, err
        finally:
            process.kill()


def features(results: Path, send: Callable[[], None]) -> list[tuple[int, bytes]]:
    """What comes out of the model while frames are sent."""
    with (
        tb.Subscriber(FEATURES, timeout=4 * PATIENCE, library="numpy") as sink,
        model(results),
    ):
        send()
        found = [sink.receive().data for _ in range(COUNT)]
        return [(each["index"], each["features"].tobytes()) for each in found]


@pytest.mark.slow
def test_a_recorded_run_replayed_gives_the_same_bits(tmp_path: Path, torch: ModuleType) -> None:
    path = tmp_path / "run.mcap"
    random = np.random.default_rng(7)

    def send() -> None:
        with (
            tb.Publisher(FRAMES, depth=2, reliable=True, timeout=4 * PATIENCE) as camera,
            tb.Recorder(path, all=True, reliable=True),
        ):
            assert camera.wait_for_subscribers(2, timeout=4 * PATIENCE)
            for index in range(COUNT):
                frame = camera.loan((1080, 1920, 3), dtype="uint8")
                frame[:] = random.integers(0, 256, frame.shape, np.uint8)
                camera.publish({"frame": frame, "index": index, "sent_ns": 0})

    def replay() -> None:
        with tb.Player(path, FRAMES, rate=10, paused=True) as player:
            assert player.wait_for_subscribers(timeout=4 * PATIENCE)
            player.resume()
            assert player.wait(4 * PATIENCE)
            assert player.stats.bytes_copied == 0

    live = features(tmp_path / "live", send)
    assert [index for index, _ in live] == [*range(COUNT)]
    assert features(tmp_path / "replayed", replay) == live
