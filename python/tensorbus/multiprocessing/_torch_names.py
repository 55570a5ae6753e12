"""`torch.multiprocessing.reductions`' names, for programs that import them from our `reductions`.

What such a function makes of a tensor goes PyTorch's way, except where the tensor lies in memory of
the bus: our own reducers of tensors and storages, which PyTorch's call through the pickler, see to
that.
"""

from __future__ import annotations

import importlib
from typing import Any

_OTHERS = {"StorageWeakRef"}


def __getattr__(name: str) -> Any:
    if name.startswith(("rebuild_", "reduce_")) or name in _OTHERS:
        try:
            return getattr(importlib.import_module("torch.multiprocessing.reductions"), name)
        except (ImportError, AttributeError):
            pass
    raise AttributeError(f"module 'tensorbus.multiprocessing.reductions' has no attribute {name!r}")
