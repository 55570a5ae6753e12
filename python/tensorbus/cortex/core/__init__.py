"""Nodes, publishers, subscribers and executors, by Cortex's names."""

from tensorbus.cortex.core.executor import AsyncExecutor, RateExecutor, SyncRateExecutor
from tensorbus.cortex.core.node import Node
from tensorbus.cortex.core.publisher import Publisher
from tensorbus.cortex.core.subscriber import Subscriber

__all__ = [
    "AsyncExecutor",
    "Node",
    "Publisher",
    "RateExecutor",
    "Subscriber",
    "SyncRateExecutor",
]
