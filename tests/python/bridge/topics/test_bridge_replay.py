"""A replay crosses a bridge, and arrives as what was live did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridges import Machine, appears, two_machines
from support.harness import PATIENCE

torch = pytest.importorskip("torch")

Pair = tuple[Machine, Machine]

COUNT = 8


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with two_machines(tmp_path) as machines_of_it:
        yield machines_of_it


def message(number: int) -> dict[str, Any]:
    chance = np.random.default_rng(number)
    return {
        "id": number,
        "image": chance.integers(0, 256, (240, 320, 3), np.uint8),
        "points": torch.from_numpy(chance.random((500, 3))).t(),
        "text": "n" * number,
    }


def bits(data: dict[str, Any]) -> tuple[Any, ...]:
    points = data["points"]
    return (
        *(data["id"], data["text"], type(data["image"]).__name__, data["image"].tobytes()),
        *(points.dtype, tuple(points.shape), points.stride(), points.numpy().tobytes()),
    )


def received(there: Machine, send: Callable[[Callable[[], None]], None]) -> list[tb.Sample[Any]]:
    """What arrives there while `send` sends, after it has called what it is given."""
    samples: list[tb.Sample[Any]] = []
    with tb.Subscriber[Any](
        "camera", depth=COUNT, domain=there.domain, timeout=PATIENCE
    ) as subscriber:

        def take_all() -> None:
            samples.extend(subscriber.receive() for _ in range(COUNT))

        send(take_all)
    return samples


@pytest.mark.parametrize("compress", [None, "zstd"])
def test_a_replay_crosses_and_arrives_as_what_was_live(
    tmp_path: Path, pair: Pair, compress: str | None
) -> None:
    here, there = pair
    path = tmp_path / "run.mcap"

    def live(take_all: Callable[[], None]) -> None:
        with (
            tb.Publisher[Any](
                "camera", reliable=True, depth=COUNT, domain=here.domain, timeout=PATIENCE
            ) as camera,
            tb.Recorder(
                path, "camera", reliable=True, compress=compress, domain=here.domain
            ) as recorder,
        ):
            appears(there, "camera")
            assert camera.wait_for_subscribers(2, timeout=PATIENCE)  # the bridge is one
            for number in range(COUNT):
                camera.publish(message(number))
            take_all()
            recorder.close()
            assert (recorder.stats.messages, recorder.stats.lost) == (COUNT, 0)

    def replayed(take_all: Callable[[], None]) -> None:
        with tb.Player(path, rate=1e6, paused=True, domain=here.domain) as player:
            appears(there, "camera")
            assert player.wait_for_subscribers(timeout=PATIENCE)
            player.resume()
            take_all()
            assert player.wait(PATIENCE)
            assert (player.stats.bytes_copied > 0) == (compress is not None)

    first, second = received(there, live), received(there, replayed)
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        assert bits(one.data) == bits(other.data) == bits(message(number))
        assert one.header.sequence == other.header.sequence == number
        assert one.header.topic == other.header.topic
        assert one.header.origin is not None
        assert other.header.origin is not None
        assert one.header.origin.machine == other.header.origin.machine == "here"
        assert not one.header.origin.is_replay
