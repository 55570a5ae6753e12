"""A class that replaces Cortex's daemon. It only waits."""

from __future__ import annotations

import logging
from contextlib import suppress

from tensorbus._base.stop_event import StopEvent
from tensorbus.cortex.discovery.protocol import DEFAULT_DISCOVERY_ADDRESS

log: logging.Logger = logging.getLogger("tensorbus.cortex")

NOT_NEEDED = "no discovery daemon is needed: programs of one domain find each other by themselves"


class DiscoveryDaemon:
    """Replaces Cortex's daemon.

    Args:
        address: ignored.
    """

    def __init__(self, address: str = DEFAULT_DISCOVERY_ADDRESS) -> None:
        self.address = address
        self._stop = StopEvent()

    def start(self) -> None:
        """Logs that no daemon is needed; returns after `stop` or Ctrl-C."""
        self._stop.clear()
        log.info(NOT_NEEDED)
        with suppress(KeyboardInterrupt):
            self._stop.wait()

    def stop(self) -> None:
        """Ends `start`. Any thread may call it."""
        self._stop.set()
