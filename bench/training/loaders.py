"""PyTorch's `DataLoader` with two workers: batches of 64 images, (3, 224, 224) float32, 38.5 MB.

The data set has its images in memory, so that the time is that of putting batches together and of
handing them over. `kept`: the program keeps all batches; else it lets each go.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from tensorbus import multiprocessing as bus_multiprocessing

IMAGE = (3, 224, 224)
BATCH = 64
WORKERS = 2
PAGE_FLOATS = 1024
CONTEXTS: dict[str, Any] = {
    "torch": "fork",
    "tensorbus": bus_multiprocessing.get_context("fork"),
}


class Images(Dataset[torch.Tensor]):
    def __init__(self, count: int) -> None:
        self.count = count
        self.images = torch.arange(float(BATCH)).view(-1, 1, 1, 1).repeat(1, *IMAGE)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.images[index % BATCH]


def each_batch(context: Any, batches: int, keeps: bool) -> float:
    """Nanoseconds, of an epoch whose workers run already."""
    loader = DataLoader(
        Images((batches + 2 * WORKERS) * BATCH),
        batch_size=BATCH,
        num_workers=WORKERS,
        multiprocessing_context=context,
    )
    kept: list[torch.Tensor] = []
    begin = 0
    for number, batch in enumerate(loader):
        if number == 2 * WORKERS:
            begin = time.perf_counter_ns()
        if float(batch.view(-1)[::PAGE_FLOATS].max()) != BATCH - 1:
            raise RuntimeError("a batch is not what it should be")
        if keeps:
            kept.append(batch)
    return (time.perf_counter_ns() - begin) / batches
