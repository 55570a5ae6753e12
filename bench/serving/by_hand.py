"""The program of docs/tasks/inference_service.md without the bus: batches over a process pool.

It is run beside that program, whose module is `app`, and has its handler, function and model. Its
batches are put together in the event loop, and pickled into the pipes of `concurrent.futures`.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections.abc import AsyncIterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import app as page
import numpy as np
from starlette.applications import Starlette

WORKERS = 2
BATCH = 16
MAX_WAIT = 0.005

_model: Any = None


def load() -> None:
    global _model
    _model = page.load()


def infer(images: Any) -> Any:
    return page.infer(_model, images).numpy()


class Batches:
    """`submit` of a pool; a task for each worker puts batches together."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self._waiting: asyncio.Queue[tuple[Any, Future[Any]]] = asyncio.Queue()

    def submit(self, image: Any, timeout: float) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.put_nowait((image, future))
        return future

    async def run(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            if self._waiting.qsize() < BATCH - 1:
                await asyncio.sleep(MAX_WAIT)
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            batch = [each for each in batch if each[1].set_running_or_notify_cancel()]
            if batch:
                await self._answer(batch)

    async def _answer(self, batch: list[tuple[Any, Future[Any]]]) -> None:
        images = np.stack([image for image, _ in batch])
        try:
            results = await asyncio.get_running_loop().run_in_executor(self._pool, infer, images)
        except Exception as error:
            for _, future in batch:
                future.set_exception(error)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)


@contextlib.asynccontextmanager
async def lifespan(_: object) -> AsyncIterator[dict[str, Any]]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=spawn, initializer=load) as pool:
        batches = Batches(pool)
        tasks = [asyncio.create_task(batches.run()) for _ in range(WORKERS)]
        yield {"pool": batches}
        for task in tasks:
            task.cancel()


app = Starlette(routes=page.routes[:1], lifespan=lifespan)
