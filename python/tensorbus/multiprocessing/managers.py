"""Managers whose calls and results go by reference.

`SyncManager` is what `Manager()` starts. One of a class of your own does the same with
`serializer=managers.SERIALIZER`, where all its processes are on this machine.
"""

from __future__ import annotations

import multiprocessing.managers
from typing import Any

from tensorbus.multiprocessing import connection

__all__ = ["SERIALIZER", "SyncManager"]


def __getattr__(name: str) -> Any:
    """What is the same there: `BaseManager`, `SharedMemoryManager`, `NamespaceProxy`, ..."""
    return getattr(multiprocessing.managers, name)


class _Serializer(str):
    """The name by which proxies find our connections: pickled, it has them registered first."""

    def __reduce__(self) -> Any:
        return _serializer, ()


def _serializer() -> _Serializer:
    return SERIALIZER


SERIALIZER = _Serializer("tensorbus")
multiprocessing.managers.listener_client[SERIALIZER] = (  # type: ignore[attr-defined]
    connection.Listener,
    connection.Client,
)


class SyncManager(multiprocessing.managers.SyncManager):
    """See `multiprocessing.managers.SyncManager`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"serializer": SERIALIZER, **kwargs})
