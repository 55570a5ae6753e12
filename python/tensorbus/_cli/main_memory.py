"""For commands that have no use for GPUs."""

from __future__ import annotations

import os


def leave_gpus() -> None:
    """Tensors of a GPU arrive in main memory, copied there by their owner (docs/cuda.md)."""
    os.environ["TENSORBUS_CUDA_DRIVER"] = "off"
