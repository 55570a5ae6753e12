"""Pools whose work and results go by reference."""

from __future__ import annotations

import multiprocessing.pool
from multiprocessing.pool import ThreadPool
from typing import Any

from tensorbus.multiprocessing import reductions
from tensorbus.multiprocessing._contexts import context_of

__all__ = ["Pool", "ThreadPool"]


class Pool(multiprocessing.pool.Pool):
    """See `multiprocessing.Pool`; its queues are those of our context."""

    def __init__(
        self,
        processes: int | None = None,
        initializer: Any = None,
        initargs: Any = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
    ) -> None:
        context = context or context_of(None)
        reductions.learn_libraries()
        super().__init__(processes, initializer, initargs, maxtasksperchild, context)
