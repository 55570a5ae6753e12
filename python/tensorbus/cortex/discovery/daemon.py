"""The command that replaces Cortex's daemon: `python -m tensorbus.cortex.discovery.daemon`."""

from __future__ import annotations

import argparse
import signal
import sys

from tensorbus.cortex.discovery.protocol import DEFAULT_DISCOVERY_ADDRESS
from tensorbus.cortex.discovery.stand_in import NOT_NEEDED, DiscoveryDaemon

__all__ = ["DEFAULT_DISCOVERY_ADDRESS", "DiscoveryDaemon", "main"]


def main() -> None:
    """Prints that no daemon is needed, and waits for SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=NOT_NEEDED)
    parser.add_argument("--address", default=DEFAULT_DISCOVERY_ADDRESS, help="ignored")
    parser.add_argument("--log-level", default="INFO", help="ignored")
    daemon = DiscoveryDaemon(parser.parse_args().address)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    print(f"{NOT_NEEDED}; this process does nothing until it is stopped", file=sys.stderr)
    daemon.start()


if __name__ == "__main__":
    main()
