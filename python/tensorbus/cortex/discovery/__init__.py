"""Who publishes what, by Cortex's names. There is no daemon: the domain says it."""

from tensorbus.cortex.discovery.client import DiscoveryClient
from tensorbus.cortex.discovery.daemon import DiscoveryDaemon
from tensorbus.cortex.discovery.protocol import (
    DEFAULT_DISCOVERY_ADDRESS,
    DiscoveryCommand,
    DiscoveryStatus,
    TopicInfo,
)

__all__ = [
    "DEFAULT_DISCOVERY_ADDRESS",
    "DiscoveryClient",
    "DiscoveryCommand",
    "DiscoveryDaemon",
    "DiscoveryStatus",
    "TopicInfo",
]
