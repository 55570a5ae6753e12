"""Tensorbus hands tensors from one process to another by reference.

import tensorbus as tb

with tb.Publisher("camera/image") as publisher:        # in one process
    frame = publisher.loan((1080, 1920, 3), dtype="uint8")
    publisher.publish(frame)

with tb.Subscriber("camera/image") as subscriber:      # in another
    for sample in subscriber:
        sample.data, sample.header
"""

# ruff: noqa: F405 - the star import below defines the standard messages

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from tensorbus._base.errors import (
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
    Refused,
    RunTimeout,
    ServiceError,
    ShutDown,
    SystemCallError,
    Timeout,
    TypeMismatch,
    Unsupported,
    VersionMismatch,
    WorkerDied,
)
from tensorbus._base.signals import interrupts_later

with interrupts_later():
    from tensorbus._base.participant import participant
    from tensorbus._base.public import public
    from tensorbus._codec.handle import Handle
    from tensorbus._codec.records import registrars
    from tensorbus._core import Memory, set_errors
    from tensorbus._core import version as __version__
    from tensorbus._sharing.share import Shared, attach, empty, share
    from tensorbus._topics.publisher import Publisher
    from tensorbus._topics.sample import Header, Origin, Sample
    from tensorbus._topics.subscriber import Subscriber

if TYPE_CHECKING:
    from tensorbus._base.stats import (
        PoolStats,
        PublisherStats,
        QueueStats,
        SubscriberStats,
        TimeSynchronizerStats,
    )
    from tensorbus._files.mapped_file import MappedFile, flush, map_file
    from tensorbus._inspection.inspection import inspect
    from tensorbus._inspection.rates import PublisherRate, rates
    from tensorbus._inspection.report import (
        BorrowedReport,
        DeviceReport,
        Inspection,
        LentReport,
        LinkReport,
        MemoryReport,
        ParticipantReport,
        PeerName,
        PublisherReport,
        QueueClientReport,
        QueueReport,
        ShareReport,
        SubscriberReport,
    )
    from tensorbus._pools.worker_pool import WorkerPool
    from tensorbus._queues.queue import Queue
    from tensorbus._recording.dataset import RecordingDataset
    from tensorbus._recording.player import Player, PlayerStats
    from tensorbus._recording.recorded_samples import RecordedSample, RecordedSamples
    from tensorbus._recording.recorder import Recorder, RecorderStats
    from tensorbus._recording.recording import RecordedTopic, Recording
    from tensorbus._recording.video_frames import VideoFrame, VideoFrames
    from tensorbus._sharing.weights import load_state_dict
    from tensorbus._tensors.born import AllocateStats, allocate
    from tensorbus._topics.async_publisher import AsyncPublisher
    from tensorbus._topics.async_subscriber import AsyncSubscriber
    from tensorbus._topics.listing import (
        NodeInfo,
        PublisherInfo,
        TopicInfo,
        list_nodes,
        list_topics,
        wait_for_node,
        wait_for_topic,
    )
    from tensorbus._topics.liveliness import DeadlineMissed, PublisherLost
    from tensorbus._topics.time_synchronizer import TimeSynchronizer
    from tensorbus._topics.wait_any import wait_any
    from tensorbus._up.pipeline import Pipeline
    from tensorbus._up.status import ProcessStatus
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
    "AllocateStats",
    "ArrayMessage",
    "AsyncExecutor",
    "AsyncPublisher",
    "AsyncSubscriber",
    "BorrowedReport",
    "BytesMessage",
    "Client",
    "Closed",
    "DeadlineMissed",
    "DeviceReport",
    "DictMessage",
    "Error",
    "FloatMessage",
    "Forked",
    "Handle",
    "Header",
    "HeaderMessage",
    "HoldLimit",
    "ImageMessage",
    "Inspection",
    "IntMessage",
    "InvalidArgument",
    "LentReport",
    "LinkReport",
    "ListMessage",
    "MappedFile",
    "Memory",
    "MemoryReport",
    "Message",
    "MessageError",
    "MessageHeader",
    "MessageType",
    "MultiArrayMessage",
    "MultiTensorMessage",
    "Node",
    "NodeInfo",
    "Origin",
    "OutOfMemory",
    "Parameter",
    "ParticipantReport",
    "PeerName",
    "Pipeline",
    "Player",
    "PlayerStats",
    "PointCloudMessage",
    "PoolStats",
    "PoseMessage",
    "ProcessStatus",
    "ProtocolError",
    "Publisher",
    "PublisherInfo",
    "PublisherLost",
    "PublisherRate",
    "PublisherReport",
    "PublisherStats",
    "Queue",
    "QueueClientReport",
    "QueueReport",
    "QueueStats",
    "RateExecutor",
    "RecordedSample",
    "RecordedSamples",
    "RecordedTopic",
    "Recorder",
    "RecorderStats",
    "Recording",
    "RecordingDataset",
    "Refused",
    "RunTimeout",
    "Sample",
    "Service",
    "ServiceError",
    "ShareReport",
    "Shared",
    "ShutDown",
    "StringMessage",
    "Subscriber",
    "SubscriberReport",
    "SubscriberStats",
    "Subscription",
    "SyncRateExecutor",
    "SystemCallError",
    "TensorMessage",
    "TimeSynchronizer",
    "TimeSynchronizerStats",
    "Timeout",
    "Timer",
    "TimestampMessage",
    "TopicInfo",
    "TransformMessage",
    "TypeMismatch",
    "Unsupported",
    "VersionMismatch",
    "VideoFrame",
    "VideoFrames",
    "WorkerDied",
    "WorkerPool",
    "__version__",
    "allocate",
    "attach",
    "empty",
    "flush",
    "inspect",
    "list_nodes",
    "list_topics",
    "load_state_dict",
    "map_file",
    "participant",
    "rates",
    "run",
    "share",
    "wait_any",
    "wait_for_node",
    "wait_for_topic",
]

set_errors(BY_CODE)
public(Memory)

# These names are imported on first use. Their modules need asyncio or pickle, which take longer to
# import than Tensorbus itself.
_LATER = {
    name: f"tensorbus.{module}"
    for module, names in {
        "_base.stats": "PoolStats PublisherStats QueueStats SubscriberStats TimeSynchronizerStats",
        "_files.mapped_file": "MappedFile flush map_file",
        "_pools.worker_pool": "WorkerPool",
        "_inspection.inspection": "inspect",
        "_inspection.rates": "PublisherRate rates",
        "_inspection.report": "BorrowedReport DeviceReport Inspection LentReport LinkReport "
        "MemoryReport ParticipantReport PeerName PublisherReport QueueClientReport QueueReport "
        "ShareReport SubscriberReport",
        "_queues.queue": "Queue",
        "_recording.dataset": "RecordingDataset",
        "_recording.player": "Player PlayerStats",
        "_recording.recorder": "Recorder RecorderStats",
        "_recording.recording": "RecordedTopic Recording",
        "_recording.recorded_samples": "RecordedSample RecordedSamples",
        "_recording.video_frames": "VideoFrame VideoFrames",
        "_sharing.weights": "load_state_dict",
        "_tensors.born": "AllocateStats allocate",
        "_topics.async_publisher": "AsyncPublisher",
        "_topics.async_subscriber": "AsyncSubscriber",
        "_topics.liveliness": "DeadlineMissed PublisherLost",
        "_topics.listing": "NodeInfo PublisherInfo TopicInfo list_nodes list_topics wait_for_node "
        "wait_for_topic",
        "_topics.time_synchronizer": "TimeSynchronizer",
        "_topics.wait_any": "wait_any",
        "_up.pipeline": "Pipeline",
        "_up.status": "ProcessStatus",
        "nodes": "AsyncExecutor Client Node Parameter RateExecutor Service Subscription "
        "SyncRateExecutor Timer run",
    }.items()
    for name in names.split()
}
# All other public names that are not imported above are messages.
_LATER.update(dict.fromkeys(set(__all__) - set(globals()) - set(_LATER), "tensorbus.messages"))


def _imported(module: str) -> object:
    from importlib import import_module

    return import_module(module)


# A message may arrive before this process has imported the package that decodes it.
registrars["message"] = lambda: _imported("tensorbus.messages")


def __getattr__(name: str) -> object:
    if name not in _LATER:
        module = sys.modules[__name__]
        text = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=module)
    value: object = getattr(_imported(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, including those that are imported on first use."""
    submodules = {name for name, value in globals().items() if isinstance(value, ModuleType)}
    own = {name for name in globals() if name.startswith("__")}
    return sorted({*__all__, *(submodules - {"sys"}), *own})
