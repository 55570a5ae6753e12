"""The names that exist on a domain: topics with a publisher, queues, services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from tensorbus import _core
from tensorbus._base.participant import participant


class DomainNames:
    """Calls a function when names may have been added or removed."""

    def __init__(self, domain: str | None, on_change: Callable[[], None]) -> None:
        self._participant = participant(domain)
        self._on_change = on_change
        self._descriptor = self._participant.domain_fileno()
        asyncio.get_running_loop().add_reader(self._descriptor, self._changed)

    @property
    def path(self) -> str:
        """The directory of the domain."""
        path: str = self._participant.domain
        return path

    def now(self) -> set[str]:
        """Topics by their names, queues as `queue:NAME`, services as `service:NAME`."""
        topics = {info.topic for info in _core.list_publishers(self._participant)}
        queues = {info.name for info in _core.list_queues(self._participant)}
        services = {name for name in queues if name.startswith("service:")}
        return topics | services | {f"queue:{name}" for name in queues - services}

    def close(self) -> None:
        """Ends the calls."""
        asyncio.get_running_loop().remove_reader(self._descriptor)

    def _changed(self) -> None:
        self._participant.clear_domain_fileno()
        self._on_change()


async def wait_for(
    names: Iterable[str], domain: str | None, timeout: float | None = None
) -> list[str]:
    """Waits until names are there. Returns those that are missing after `timeout` seconds."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    until = None if timeout is None else loop.time() + timeout
    there = DomainNames(domain, changed.set)
    try:
        while True:
            changed.clear()
            now = there.now()
            missing = [name for name in names if name not in now]
            if not missing or (until is not None and loop.time() >= until):
                return missing
            with suppress(asyncio.TimeoutError):
                left = None if until is None else until - loop.time()
                await asyncio.wait_for(changed.wait(), left)
    finally:
        there.close()
