"""The actors that are killed."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.experimental.rdt.util import normalize_and_validate_tensor_transport

import tensorbus as tb
import tensorbus.ray
from ray_storm import plain


def register() -> None:
    """Registers the transports for NumPy's arrays.

    Without PyTorch, which each restart of an actor would import, for seconds.
    """
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]
    tensorbus.ray.register()
    plain.register()
    normalize_and_validate_tensor_transport(plain.NAME)  # registers those of Ray
    if sys.modules["torch"] is None:
        del sys.modules["torch"]  # Ray imports it when a transfer fails


register()  # also in workers, which import this module

_SIZES = (3, 1_000, 300_000)


def tensors_of(number: int) -> list[np.ndarray]:
    """The tensors of object `number`."""
    return [np.full(_SIZES[number % len(_SIZES)], number % 251, np.uint8), np.arange(number % 7)]


def check(number: int, data: dict[str, Any]) -> int:
    """Raises unless the data are those of object `number`."""
    assert data["number"] == number, f"{data['number']} is not {number}"
    for tensor, expected in zip(data["tensors"], tensors_of(number), strict=True):
        assert np.array_equal(tensor, expected), f"wrong tensors in {number}"
    return number


class Actor:
    """A source and a receiver. `folder`: it writes its pid to a file there."""

    def __init__(self, folder: str, name: str) -> None:
        written = Path(folder, f"{name}.new")
        written.write_text(str(os.getpid()))
        written.rename(Path(folder, name))
        self._held: list[Any] = []

    def make(self, number: int) -> dict[str, Any]:
        return {"number": number, "tensors": tensors_of(number)}

    def put(self, number: int, transport: str | None) -> list[Any]:
        return [ray.put(self.make(number), _tensor_transport=transport)]

    def check(self, number: int, data: dict[str, Any]) -> int:
        return check(number, data)

    def gets(self, number: int, refs: list[Any]) -> int:
        return check(number, ray.get(refs[0]))

    def forward(self, number: int, data: dict[str, Any]) -> dict[str, Any]:
        check(number, data)
        return data

    def hold(self, number: int, data: dict[str, Any]) -> int:
        """Keeps some, and looks at all that it keeps."""
        self._held = [*self._held[-3:], (number, data)]
        for each in self._held:
            check(*each)
        return number

    def forget(self) -> None:
        """Forgets what it holds."""
        self._held = []

    def kept(self) -> tuple[int, int, int]:
        return kept()


def kept() -> tuple[int, int, int]:
    """What this process has: bytes of memory on the bus that are in use, open descriptors, and
    objects that Ray has made or received here."""
    gc.collect()
    store = ray._private.worker.global_worker.rdt_manager.rdt_store
    used = tb.participant().arena["used_bytes"]
    return used, len(os.listdir("/proc/self/fd")), store.get_num_objects()
