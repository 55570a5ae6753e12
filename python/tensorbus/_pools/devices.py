"""The devices of a pool's workers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from tensorbus._base.arguments import whole_number
from tensorbus._base.device import ordinal_of
from tensorbus._base.errors import InvalidArgument
from tensorbus._pools.worker import takes_device


def devices_of(
    workers: int | None,
    devices: Sequence[Any] | None,
    *functions: Callable[..., Any] | None,
) -> list[Any]:
    """The device of each worker, or None for a worker without a device."""
    if devices is None:
        count = len(os.sched_getaffinity(0)) if workers is None else workers
        return [None] * whole_number("workers", count, low=1)
    if workers is not None:
        raise InvalidArgument("workers and devices: give one of them; each device has one worker")
    if isinstance(devices, str) or not devices:
        raise InvalidArgument(f"devices={devices!r}: expected a list of devices, at least one")
    for device in devices:
        if isinstance(device, str) and re.match("gpu|cuda", device, re.IGNORECASE):
            ordinal_of(device)  # refuses "gpu" and "CUDA:0", which no library accepts
    unknown = [device for device in devices if not str(device).startswith("cuda")]
    if unknown and not any(takes_device(function) for function in functions):
        raise InvalidArgument(
            "devices: neither the function nor the initializer has a parameter `device`, and "
            f"{unknown[0]!r} is not a GPU that can be the current device of a worker"
        )
    for device in devices:
        if device not in unknown:
            ordinal_of(device)
    return list(devices)
