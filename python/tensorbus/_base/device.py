"""Devices and streams, in the notations of frameworks."""

from __future__ import annotations

import sys
from typing import Any

from tensorbus._base.errors import InvalidArgument

# The core's ordinal of main memory, in place of a GPU's.
HOST = -1
# The ordinal for a subscriber without a `device`: its tensors are not moved.
STAYS = -2


def ordinal_of(device: Any) -> int:
    """The ordinal of a GPU in this process, or `HOST`.

    Args:
        device: `None` or "cpu", "cuda" (PyTorch's current GPU, else the first one), "cuda:1", or a
            `torch.device`.

    >>> ordinal_of("cpu"), ordinal_of("cuda:1")
    (-1, 1)
    """
    if device is None:
        return HOST
    name, _, number = str(device).partition(":")
    if name == "cpu" and number in ("", "0"):
        return HOST
    if name == "cuda" and (not number or number.isdecimal()):
        return int(number) if number else _current_device()
    raise InvalidArgument(f'device={device!r}: expected "cpu", "cuda" or "cuda:0" and so on')


# The ordinal of "cuda" in this process without PyTorch; `make_current` sets it.
_current = 0


def _current_device() -> int:
    torch = _torch_with_cuda()
    return _current if torch is None else int(torch.cuda.current_device())


def make_current(device: Any) -> bool:
    """Makes this GPU the meaning of "cuda" in this process, and in PyTorch if that is imported.

    A device that is not a GPU changes nothing.

    Returns:
        False if PyTorch is not imported yet: call it again later. Else True.
    """
    global _current
    if not str(device).startswith("cuda"):
        return True
    _current = ordinal_of(device)
    torch = _torch_with_cuda()
    if torch is not None:
        torch.cuda.set_device(_current)
    return "torch" in sys.modules


def current_stream(ordinal: int) -> int:
    """PyTorch's current stream of this thread; without PyTorch, the legacy default stream."""
    torch = _torch_with_cuda()
    return 0 if torch is None else int(torch.cuda.current_stream(ordinal).cuda_stream)


def _torch_with_cuda() -> Any:
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


def device_of(stream: Any) -> int:
    """The ordinal of the GPU of a stream of PyTorch or CuPy; `HOST` for any other stream.

    >>> device_of(0)
    -1
    """
    for attribute in ("device_index", "device_id"):
        ordinal = getattr(stream, attribute, None)
        if isinstance(ordinal, int):
            return ordinal
    return HOST


def stream_of(stream: Any) -> int:
    """The handle of a stream.

    Args:
        stream: an int (a `cudaStream_t`), a `torch.cuda.Stream`, a CuPy stream, or an object with
            `__cuda_stream__`.

    >>> stream_of(0)
    0
    """
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    raise InvalidArgument(
        f"stream={stream!r}: expected a stream of PyTorch or CuPy, an object with "
        "__cuda_stream__, or a handle as an int"
    )
