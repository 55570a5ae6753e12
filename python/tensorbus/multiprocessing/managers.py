"""Managers whose calls and results pass tensors by reference.

`Manager()` starts a `SyncManager`. A manager of your own class also passes tensors by reference, if
it is made with `serializer=managers.SERIALIZER`. All its processes must be on this machine.
"""

from __future__ import annotations

import multiprocessing.managers
from typing import Any

from tensorbus.multiprocessing import connection

__all__ = ["SERIALIZER", "SyncManager"]


def __getattr__(name: str) -> Any:
    """Other names of the standard library's module: `BaseManager`, `NamespaceProxy`, ..."""
    return getattr(multiprocessing.managers, name)


class _Serializer(str):
    """The name that selects the connections of this package. Unpickling it imports this module."""

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
