"""Nodes, publishers, subscribers and executors under the names of Cortex."""

from tensorbus.cortex.core.executor import (
    AsyncExecutor,
    BaseAsyncExecutor,
    RateExecutor,
    SyncRateExecutor,
)
from tensorbus.cortex.core.node import Node
from tensorbus.cortex.core.publisher import Publisher
from tensorbus.cortex.core.subscriber import AsyncSubscriber, Subscriber
from tensorbus.cortex.core.subscriber_base import (
    MessageFingerprintError,
    SubscriberBase,
    SubscriberStats,
)
from tensorbus.cortex.core.sync_subscriber import ThreadedSubscriber
from tensorbus.cortex.core.types import AsyncCallback, MessageCallback, SyncMessageCallback

__all__ = [
    "AsyncCallback",
    "AsyncExecutor",
    "AsyncSubscriber",
    "BaseAsyncExecutor",
    "MessageCallback",
    "MessageFingerprintError",
    "Node",
    "Publisher",
    "RateExecutor",
    "Subscriber",
    "SubscriberBase",
    "SubscriberStats",
    "SyncMessageCallback",
    "SyncRateExecutor",
    "ThreadedSubscriber",
]
