"""What each process writes down, for run.py to read: when messages came, and what was copied."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from plan import FEATURES_SHAPE


class Arrivals:
    """One line for each message: its index, and the wall clock (ns) when it was sent and was there.

    Lines are written at once: whoever reads the file sees how far the process is.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def add(self, index: int, sent_ns: int, arrived_ns: int) -> None:
        self._file.write(f"{index} {sent_ns} {arrived_ns}\n")


def count_arrivals(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def read_arrivals(path: Path) -> np.ndarray:
    """(messages, 3) int64: index, sent, arrived."""
    return np.loadtxt(path, dtype=np.int64, ndmin=2)


def read_features(path: Path) -> np.ndarray:
    """(frames, 64, 17, 30) float32, as the sink wrote them."""
    return np.fromfile(path, dtype=np.float32).reshape(-1, *FEATURES_SHAPE[1:])


def write_stats(path: Path, stats: Any) -> None:
    path.write_text(json.dumps(dict(stats)))


def read_stats(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))
