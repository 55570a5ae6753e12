"""What is asked of recorders and players that are killed.

A recorder has acknowledged what its `stats.messages` counted: all of that must be in the file,
whole, in order, without a gap. A player owes its subscribers what it has delivered: those samples
must stay as they were recorded, for as long as they are held, and the next player must be heard.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorbus as tb
from recording_storm.roles import PATIENCE, TOPIC

_HERE = Path(__file__).resolve().parent.parent
_HELD = 16  # samples that a subscriber keeps
_LONGEST = 0.15  # seconds that a victim works
_SIZES = (10, 3_000, 200_000)


@dataclass
class Figures:
    """What a storm has seen."""

    kills: int = 0
    acknowledged: int = 0  # messages that killed recorders had counted
    in_files: int = 0  # messages in their files
    delivered: int = 0  # samples that killed players had delivered
    checked_after: int = 0  # of those, held when the player was dead


def data_of(number: int) -> Any:
    """What message `number` has in its tensor."""
    return np.full(_SIZES[number % len(_SIZES)], number % 251, np.uint8)


def message(number: int) -> dict[str, Any]:
    return {"number": number, "data": data_of(number)}


def check(data: dict[str, Any]) -> int:
    """The number of a message, whose tensor must be right."""
    expected = data_of(data["number"])
    assert data["data"].shape == expected.shape, data["number"]
    assert (data["data"] == expected).all(), data["number"]
    return int(data["number"])


@contextmanager
def victim(role: str, path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a role, which is killed at the end of the block, if not before."""
    command = [sys.executable, "-m", "recording_storm.roles", role, str(path), *options]
    path_of_modules = f"{_HERE}:{os.environ.get('PYTHONPATH', '')}"
    env = {**os.environ, "PYTHONPATH": path_of_modules}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def published() -> Iterator[None]:
    """Numbered messages, published as fast as the recorders take them."""
    ended = threading.Event()
    with tb.Publisher[Any](TOPIC, reliable=True, timeout=0.05) as publisher:

        def publish() -> None:
            number = 0
            while not ended.is_set():
                if publisher.wait_for_subscribers(timeout=0.05):
                    try:
                        publisher.publish(message(number))
                    except tb.Timeout:
                        continue
                    number += 1

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def kill_a_recorder(path: Path, chance: random.Random, figures: Figures) -> None:
    """Somebody must publish meanwhile."""
    with victim("record", path, chance.choice(("", "zstd", "lz4"))) as process:
        assert process.stdout
        lines = [process.stdout.readline()]
        timer = threading.Timer(chance.random() * _LONGEST, process.kill)
        timer.start()
        lines += [*process.stdout]
        timer.join()
    told = [int(line) for line in lines if line.endswith("\n")]
    assert told, "the recorder has said nothing"
    recording = tb.Recording(path)
    numbers = [check(sample.data) for sample in recording]
    assert len(numbers) >= told[-1], f"{told[-1]} acknowledged, {len(numbers)} in {path}"
    assert recording.lost == 0
    if numbers:
        assert numbers == [*range(numbers[0], numbers[0] + len(numbers))]
    figures.kills += 1
    figures.acknowledged += told[-1]
    figures.in_files += len(numbers)


def kill_a_player(path: Path, chance: random.Random, figures: Figures) -> None:
    """The recording at `path` is played."""
    held: deque[tuple[int, tb.Sample[Any]]] = deque(maxlen=_HELD)
    last = -1
    with (
        tb.Subscriber[Any](TOPIC, timeout=0.05) as subscriber,
        victim("play", path) as process,
    ):
        assert process.stdout
        assert process.stdout.readline() == "plays\n"
        timer = threading.Timer(chance.random() * _LONGEST, process.kill)
        timer.start()
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                sample = subscriber.receive()
            except tb.Timeout:
                if process.poll() is not None:
                    break
                continue
            assert sample.header.sequence > last
            last = sample.header.sequence
            held.append((check(sample.data), sample))
            figures.delivered += 1
        timer.join()
        assert process.wait(PATIENCE) != 0
        for number, sample in held:
            assert check(sample.data) == number
    figures.kills += 1
    figures.checked_after += len(held)


def run(folder: Path, kills: int, seed: int) -> Figures:
    """Kills so many, recorders and players by turns."""
    figures, chance = Figures(), random.Random(seed)
    played = folder / "played.mcap"
    with (
        tb.Publisher[Any](TOPIC, reliable=True) as publisher,
        tb.Recorder(played, TOPIC, reliable=True),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(100):
            publisher.publish(message(number))
    with published():
        for _ in range(kills - kills // 2):
            kill_a_recorder(folder / "recorded.mcap", chance, figures)
    for _ in range(kills // 2):
        kill_a_player(played, chance, figures)
    return figures
