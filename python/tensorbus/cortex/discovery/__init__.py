"""Cortex's discovery over the domain's topics. There is no daemon."""

from tensorbus.cortex.discovery.client import DiscoveryClient
from tensorbus.cortex.discovery.protocol import (
    DEFAULT_DISCOVERY_ADDRESS,
    DiscoveryCommand,
    DiscoveryStatus,
    TopicInfo,
)
from tensorbus.cortex.discovery.stand_in import DiscoveryDaemon

__all__ = [
    "DEFAULT_DISCOVERY_ADDRESS",
    "DiscoveryClient",
    "DiscoveryCommand",
    "DiscoveryDaemon",
    "DiscoveryStatus",
    "TopicInfo",
]
