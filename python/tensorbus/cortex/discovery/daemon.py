"""What starts where Cortex's discovery daemon was started: it does nothing, and stays."""

from __future__ import annotations

import logging
import signal
import sys
import threading

from tensorbus.cortex.discovery.protocol import DEFAULT_DISCOVERY_ADDRESS

__all__ = ["DEFAULT_DISCOVERY_ADDRESS", "DiscoveryDaemon", "main"]

log: logging.Logger = logging.getLogger("tensorbus.cortex")

_NOT_NEEDED = "no discovery daemon is needed: programs of one domain find each other by themselves"


class DiscoveryDaemon:
    """Stands in for Cortex's.

    Args:
        address: ignored.
    """

    def __init__(self, address: str = DEFAULT_DISCOVERY_ADDRESS) -> None:
        self.address = address
        self._stop = threading.Event()

    def start(self) -> None:
        """Says in the log that no daemon is needed; returns after `stop`, or Ctrl-C."""
        log.info(_NOT_NEEDED)
        try:
            self._stop.wait()
        except KeyboardInterrupt:
            pass
        finally:
            self._stop.clear()

    def stop(self) -> None:
        """Ends `start`. From any thread."""
        self._stop.set()


def main() -> None:
    """The command: `python -m tensorbus.cortex.discovery.daemon`."""
    import argparse

    parser = argparse.ArgumentParser(description=_NOT_NEEDED)
    parser.add_argument("--address", default=DEFAULT_DISCOVERY_ADDRESS, help="ignored")
    parser.add_argument("--log-level", default="INFO", help="ignored")
    daemon = DiscoveryDaemon(parser.parse_args().address)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    print(f"{_NOT_NEEDED}; this process does nothing, until it is stopped", file=sys.stderr)
    sys.stderr.flush()
    daemon.start()


if __name__ == "__main__":
    main()
