"""Arrays and tensors that are born on the bus: made by their libraries, in memory of the bus."""

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

MIN_BYTES = 65_536  # smaller ones are copied in less time than a block takes
_LEAST = 4096  # blocks are whole pages


@public
@dataclass(frozen=True)
class AllocateStats:
    """What was born on the bus in this process: `tensorbus.allocate.stats()`."""

    arrays: int  # of NumPy, that are there now
    bytes: int  # of those
    born: int  # arrays and tensors since the process started
    elsewhere: int  # that lie in ordinary memory, since there was no room on the bus


@public
class allocate:
    """Has NumPy and PyTorch make arrays and CPU tensors in memory of the bus.

    What is made inside ``with``, in this thread (for NumPy: in this context, and so in this task of
    asyncio), is published, shared and queued by reference, whole or as a view. It is a loan in all
    else: publish it once, and do not write to it afterwards, as its readers rely on that. Its
    memory goes back when the last view of it, and the last reader, is gone. It lives as long as
    any array does, also when the ``with`` or the participant has ended.

    NumPy's arrays are all that NumPy allocates: results of functions and operators, too. Of
    PyTorch's tensors it is those of `torch.empty`, `zeros`, `ones`, `full`, `rand`, `randn` and
    their `_like`, `stack` and `cat` (if no gradients are recorded); import torch before.

    Where there is no room (budget, limits of the system), and in a forked child, they are made in
    ordinary memory, and copied when they are published; `allocate.stats()` counts that.

    Args:
        min_bytes: smaller ones are made in ordinary memory; 4,096 at least.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: `min_bytes` is no whole number, or is below 4,096.
        Unsupported: neither NumPy (1.22 or newer) nor PyTorch is there.

    >>> import numpy as np
    >>> with allocate():
    ...     frame = np.zeros((1080, 1920, 3), np.uint8)
    >>> allocate.stats().arrays
    1
    """

    def __init__(self, *, min_bytes: int = MIN_BYTES, domain: str | None = None) -> None:
        self._min_bytes = whole_number("min_bytes", min_bytes, low=_LEAST, high=2**63 - 1)
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
        """The same from now on, in this thread and the tasks that it starts; others call it, too.

        Raises:
            InvalidArgument: it is enabled already. Else the same as `allocate`.
        """
        if hasattr(_enabled, "now"):
            raise InvalidArgument("tb.allocate is enabled already: call allocate.disable() before")
        _enabled.now = allocate(min_bytes=min_bytes, domain=domain).__enter__()

    @staticmethod
    def disable() -> None:
        """Ends `enable`, in the thread that called it. What was born stays as it is."""
        if hasattr(_enabled, "now"):
            _enabled.now.__exit__()
            del _enabled.now

    @staticmethod
    def stats() -> AllocateStats:
        """What was born so far, and what found no room."""
        return AllocateStats(*_core.born_use())


_enabled = threading.local()  # `now`: what enable() has entered in this thread


def _set_numpy(home: _core.Participant, min_bytes: int) -> Any:
    """The handler before; None without NumPy."""
    if "numpy" not in sys.modules and find_spec("numpy") is None:
        return None
    numpy_arrays.learn()
    return _core.set_numpy_handler(_numpy_api(), home, min_bytes)


def _numpy_api() -> Any:
    """The capsule with NumPy's C interface."""
    np = numpy_arrays.learn()
    core = np._core if hasattr(np, "_core") else np.core
    return core._multiarray_umath._ARRAY_API
