"""Pools whose work and results go by reference."""

from __future__ import annotations

import multiprocessing.pool
from multiprocessing.pool import ThreadPool
from typing import Any

from tensorbus.multiprocessing import reductions

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
        if context is None:
            from tensorbus.multiprocessing.context import default_context

            context = default_context.get_context()
        reductions.learn_libraries()
        super().__init__(processes, initializer, initargs, maxtasksperchild, context)
