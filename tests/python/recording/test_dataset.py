"""Recordings as datasets of PyTorch, in workers that were forked and spawned."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE

COUNT = 7


def record(path: Path) -> None:
    with (
        tb.Publisher("image", reliable=True, depth=COUNT) as images,
        tb.Recorder(path, all=True, reliable=True, overwrite=True),
    ):
        assert images.wait_for_subscribers(timeout=PATIENCE)
        for number in range(COUNT):
            images.publish({"id": number, "image": np.full((40, 50), number, "f4")})


@pytest.fixture
def path(tmp_path: Path, torch: ModuleType) -> Path:
    path = tmp_path / "run.mcap"
    record(path)
    return path


def last_id(samples: list[tb.Sample[Any]]) -> tuple[int, int]:
    """A transform that spawned workers can import."""
    return samples[-1].data["id"], samples[-1].header.sequence


def test_items_are_messages(path: Path, torch: ModuleType) -> None:
    dataset = tb.Recording(path).dataset("image")
    assert isinstance(dataset, torch.utils.data.Dataset)
    assert len(dataset) == COUNT
    for number in range(COUNT):
        item = dataset[number]
        assert item["id"] == number
        assert isinstance(item["image"], torch.Tensor)
        assert bool((item["image"] == number).all())
    assert dataset[-1]["id"] == COUNT - 1
    with pytest.raises(IndexError):
        dataset[COUNT]


def test_tensors_are_views_of_the_mapped_file(path: Path) -> None:
    image = tb.Recording(path).dataset("image")[2]["image"]
    where = image.data_ptr()
    with open("/proc/self/maps") as maps:
        (mapped,) = [
            line.split()[5].strip()
            for line in maps
            if int(line.split("-")[0], 16) <= where < int(line.split("-")[1].split()[0], 16)
        ]
    assert mapped == str(path)


def test_windows_overlap_or_do_not(path: Path) -> None:
    recording = tb.Recording(path)
    windows = recording.dataset("image", window=3)
    assert [[item["id"] for item in window] for window in windows] == [
        [first, first + 1, first + 2] for first in range(COUNT - 2)
    ]
    apart = recording.dataset("image", window=2, step=3, transform=last_id)
    assert [apart[index] for index in range(len(apart))] == [(1, 1), (4, 4)]
    assert len(recording.dataset("image", window=COUNT + 1)) == 0
    assert len(recording.dataset("image", step=2)) == 4
    assert len(recording.dataset("image", start_ns=recording.time_ns(5))) == 2


def test_pickled_it_is_a_place(path: Path, torch: ModuleType) -> None:
    dataset = tb.Recording(path).dataset("image", window=2)
    assert len(dataset[0]) == 2
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 1000
    again = pickle.loads(pickled)
    assert again[3][1]["id"] == 4
    record(path)
    replaced = pickle.loads(pickled)
    with pytest.raises(tb.InvalidArgument, match="has been replaced"):
        replaced[0]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_loader_map_the_file_themselves(
    path: Path, torch: ModuleType, method: str
) -> None:
    dataset = tb.Recording(path).dataset("image")
    assert dataset[0]["id"] == 0  # it is open when they are made
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=3, num_workers=2, multiprocessing_context=method
    )
    batches = [*loader]
    assert [batch["id"].tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [batch["image"][:, 0, 0].tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    windows = tb.Recording(path).dataset("image", window=3, transform=last_id)
    loader = torch.utils.data.DataLoader(
        windows, batch_size=None, num_workers=2, multiprocessing_context=method
    )
    assert [*map(tuple, loader)] == [(number, number) for number in range(2, COUNT)]


def test_mistakes_are_told(path: Path) -> None:
    recording = tb.Recording(path)
    with pytest.raises(tb.InvalidArgument, match="its topics: 'image'"):
        recording.dataset("pose")
    with pytest.raises(tb.InvalidArgument, match="window=0"):
        recording.dataset("image", window=0)
    with pytest.raises(tb.InvalidArgument, match="step=0"):
        recording.dataset("image", step=0)
