"""The overview of a domain, updated every second while a page is open."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from tensorbus._base.errors import Error
from tensorbus._inspection.report import Inspection
from tensorbus._up.running import running_pipelines
from tensorbus._view.channel import Frame, Take
from tensorbus._view.summary import summary

Source = Callable[[], Inspection]
PERIOD = 1.0  # seconds

logger = logging.getLogger("tensorbus.view")


class Overview:
    """Inspects a domain, and compares each inspection with the previous inspection.

    Args:
        inspect: inspects the domain; it may block while processes do not reply.
    """

    def __init__(self, inspect: Source) -> None:
        self._inspect = inspect

    async def run(self, give: Take) -> None:
        """Calls `give` with a frame of the summary every second."""
        before: Inspection | None = None
        while True:
            began = time.monotonic()
            try:
                before, frame = await asyncio.to_thread(self._next, before)
                give(frame)
            except (Error, OSError) as error:
                logger.warning("the domain cannot be inspected: %s", error)
            except Exception:  # the next inspection may be valid
                logger.exception("the domain cannot be shown")
            await asyncio.sleep(max(0.1, began + PERIOD - time.monotonic()))

    def _next(self, before: Inspection | None) -> tuple[Inspection, bytes]:
        after = self._inspect()
        pipelines = running_pipelines(after.domain)
        return after, Frame(summary(before, after, pipelines)).encoded()
