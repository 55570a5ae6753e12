"""Tensorbus hands tensors from one process to another by reference.

import tensorbus as tb

with tb.Publisher("camera/image") as publisher:        # in one process
    frame = publisher.loan((1080, 1920, 3), dtype="uint8")
    publisher.publish(frame)

with tb.Subscriber("camera/image") as subscriber:      # in another
    for sample in subscriber:
        sample.data, sample.header
"""

# ruff: noqa: F405 - the standard messages are listed where they are

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorbus._core import Memory, know_errors
from tensorbus._core import version as __version__
from tensorbus._errors import (
    BY_CODE,
    AccessDenied,
    Closed,
    Error,
    Forked,
    HoldLimit,
    InvalidArgument,
    MessageError,
    OutOfMemory,
    ProtocolError,
    ServiceError,
    SystemCallError,
    Timeout,
    TypeMismatch,
    Unsupported,
    VersionMismatch,
    WorkerDied,
)
from tensorbus._files import MappedFile, flush, map_file
from tensorbus._handle import Handle
from tensorbus._participant import participant
from tensorbus._publisher import Publisher
from tensorbus._sample import Header, Sample
from tensorbus._share import Shared, attach, empty, share
from tensorbus._subscriber import Subscriber
from tensorbus._wait_any import wait_any

if TYPE_CHECKING:
    from tensorbus._async_subscriber import AsyncSubscriber
    from tensorbus._listing import (
        NodeInfo,
        PublisherInfo,
        TopicInfo,
        list_nodes,
        list_topics,
        wait_for_node,
        wait_for_topic,
    )
    from tensorbus._queue import Queue
    from tensorbus._weights import load_state_dict
    from tensorbus._worker_pool import WorkerPool
    from tensorbus.messages import Message, MessageHeader, MessageType
    from tensorbus.messages._standard import *  # noqa: F403
    from tensorbus.nodes import (
        AsyncExecutor,
        Client,
        Node,
        Parameter,
        RateExecutor,
        Service,
        Subscription,
        SyncRateExecutor,
        Timer,
        run,
    )

__all__ = [
    "AccessDenied",
    "ArrayMessage",
    "AsyncExecutor",
    "AsyncSubscriber",
    "BytesMessage",
    "Client",
    "Closed",
    "DictMessage",
    "Error",
    "FloatMessage",
    "Forked",
    "Handle",
    "Header",
    "HeaderMessage",
    "HoldLimit",
    "ImageMessage",
    "IntMessage",
    "InvalidArgument",
    "ListMessage",
    "MappedFile",
    "Memory",
    "Message",
    "MessageError",
    "MessageHeader",
    "MessageType",
    "MultiArrayMessage",
    "MultiTensorMessage",
    "Node",
    "NodeInfo",
    "OutOfMemory",
    "Parameter",
    "PointCloudMessage",
    "PoseMessage",
    "ProtocolError",
    "Publisher",
    "PublisherInfo",
    "Queue",
    "RateExecutor",
    "Sample",
    "Service",
    "ServiceError",
    "Shared",
    "StringMessage",
    "Subscriber",
    "Subscription",
    "SyncRateExecutor",
    "SystemCallError",
    "TensorMessage",
    "Timeout",
    "Timer",
    "TimestampMessage",
    "TopicInfo",
    "TransformMessage",
    "TypeMismatch",
    "Unsupported",
    "VersionMismatch",
    "WorkerDied",
    "WorkerPool",
    "__version__",
    "attach",
    "empty",
    "flush",
    "list_nodes",
    "list_topics",
    "load_state_dict",
    "map_file",
    "participant",
    "run",
    "share",
    "wait_any",
    "wait_for_node",
    "wait_for_topic",
]

know_errors(BY_CODE)


# On first use: what they need, asyncio and pickle, takes longer to import than all of Tensorbus.
_LATER = {
    "AsyncSubscriber": "tensorbus._async_subscriber",
    "NodeInfo": "tensorbus._listing",
    "PublisherInfo": "tensorbus._listing",
    "TopicInfo": "tensorbus._listing",
    "list_nodes": "tensorbus._listing",
    "list_topics": "tensorbus._listing",
    "wait_for_node": "tensorbus._listing",
    "wait_for_topic": "tensorbus._listing",
    "Queue": "tensorbus._queue",
    "load_state_dict": "tensorbus._weights",
    "WorkerPool": "tensorbus._worker_pool",
    **dict.fromkeys(
        [
            "AsyncExecutor",
            "Client",
            "Node",
            "Parameter",
            "RateExecutor",
            "Service",
            "Subscription",
            "SyncRateExecutor",
            "Timer",
            "run",
        ],
        "tensorbus.nodes",
    ),
}
# The others that are public and not there yet are messages.
_LATER.update(dict.fromkeys(set(__all__) - set(globals()) - set(_LATER), "tensorbus.messages"))


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found
