"""`tensorbus.allocate`: NumPy and PyTorch allocate arrays and tensors in memory of the bus."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from tensorbus import _core
from tensorbus._base.arguments import whole_number
from tensorbus._base.errors import InvalidArgument, Unsupported
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._tensors import numpy_arrays

MIN_BYTES = 65_536  # copying a smaller array is faster than taking a block
_PAGE_BYTES = 4096  # blocks are whole pages


@public
@dataclass(frozen=True)
class AllocateStats:
    """Counters of `tensorbus.allocate` in this process: `tensorbus.allocate.stats()`."""

    arrays: int
    """NumPy arrays that are in memory of the bus now."""
    bytes: int
    """Bytes of those arrays."""
    born: int
    """Arrays and tensors made in memory of the bus since the process started."""
    elsewhere: int
    """Arrays and tensors made in ordinary memory, because the bus had no room."""


@public
class allocate:
    """Context in which NumPy and PyTorch allocate arrays and CPU tensors in memory of the bus.

    It applies to this thread; for NumPy, to the current `contextvars` context, and so to one
    asyncio task. The arrays and tensors are published, shared and queued by reference, whole or as
    views. In all other ways they are loans: publish each once, and do not write to it afterwards,
    because its readers read the same memory. The memory is freed with the last view and the last
    reader; arrays stay valid after the end of the ``with`` block, and of the participant.

    For NumPy it covers every allocation of an array, including the results of functions and
    operators. For PyTorch it covers `torch.empty`, `zeros`, `ones`, `full`, `rand`, `randn` and
    their `_like` forms, and `stack` and `cat` (if no gradients are recorded); import torch first.

    If the bus has no room (budget, system limits), and in a forked child, ordinary memory is used
    instead, and copied when it is published; `allocate.stats()` counts these cases.

    Args:
        min_bytes: smaller arrays are made in ordinary memory; at least 4,096.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: `min_bytes` is not a whole number, or is below 4,096.
        Unsupported: neither NumPy (1.22 or newer) nor PyTorch is available.

    >>> import numpy as np
    >>> with allocate():
    ...     frame = np.zeros((1080, 1920, 3), np.uint8)
    >>> allocate.stats().arrays
    1
    """

    def __init__(self, *, min_bytes: int = MIN_BYTES, domain: str | None = None) -> None:
        self._min_bytes = whole_number("min_bytes", min_bytes, low=_PAGE_BYTES, high=2**63 - 1)
        self._domain = domain
        self._entered: list[tuple[Any, Any]] = []

    def __enter__(self) -> allocate:
        home = participant(self._domain)
        mode = self._torch_mode(home)
        handler = _set_numpy(home, self._min_bytes)
        if handler is None and mode is None:
            raise Unsupported("tb.allocate() needs NumPy, or PyTorch imported before it")
        if mode is not None:
            mode.__enter__()
        self._entered.append((handler, mode))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        handler, mode = self._entered.pop()
        if mode is not None:
            mode.__exit__(kind, error, traceback)
        if handler is not None:
            _core.restore_numpy_handler(_numpy_api(), handler)

    def _torch_mode(self, home: _core.Participant) -> Any:
        if "torch" not in sys.modules:
            return None
        from tensorbus._tensors.born_torch import Born

        return Born(home, self._min_bytes)

    @staticmethod
    def enable(*, min_bytes: int = MIN_BYTES, domain: str | None = None) -> None:
        """Enters the context in this thread and in tasks that it starts later, until `disable`.

        Raises:
            InvalidArgument: it is enabled already.
            InvalidArgument, Unsupported: like `allocate`.
        """
        if hasattr(_enabled, "now"):
            raise InvalidArgument("tb.allocate is enabled already: call allocate.disable() before")
        _enabled.now = allocate(min_bytes=min_bytes, domain=domain).__enter__()

    @staticmethod
    def disable() -> None:
        """Ends the effect of `enable` in this thread. Existing arrays do not change."""
        if hasattr(_enabled, "now"):
            _enabled.now.__exit__()
            del _enabled.now

    @staticmethod
    def stats() -> AllocateStats:
        """Counters of arrays and tensors on the bus, and of those for which it had no room."""
        return AllocateStats(*_core.born_use())


_enabled = threading.local()  # `now`: the context that enable() has entered in this thread


def _set_numpy(home: _core.Participant, min_bytes: int) -> Any:
    """Returns the previous handler; None without NumPy."""
    if "numpy" not in sys.modules and find_spec("numpy") is None:
        return None
    numpy_arrays.learn()
    return _core.set_numpy_handler(_numpy_api(), home, min_bytes)


def _numpy_api() -> Any:
    """The capsule with NumPy's C interface."""
    np = numpy_arrays.learn()
    core = np._core if hasattr(np, "_core") else np.core
    return core._multiarray_umath._ARRAY_API
