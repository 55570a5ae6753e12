"""Tensorbus hands tensors from one process to another by reference.

import tensorbus as tb

with tb.Publisher("camera/image") as publisher:        # in one process
    frame = publisher.loan((1080, 1920, 3), dtype="uint8")
    publisher.publish(frame)

with tb.Subscriber("camera/image") as subscriber:      # in another
    for sample in subscriber:
        sample.data, sample.header
"""

from tensorbus._core import version as __version__
from tensorbus._errors import (
    AccessDenied,
    Closed,
    Error,
    Forked,
    HoldLimit,
    InvalidArgument,
    OutOfMemory,
    ProtocolError,
    SystemCallError,
    Timeout,
    Unsupported,
    VersionMismatch,
)
from tensorbus._participant import participant
from tensorbus._publisher import Publisher
from tensorbus._sample import Header, Sample
from tensorbus._subscriber import Subscriber

__all__ = [
    "AccessDenied",
    "Closed",
    "Error",
    "Forked",
    "Header",
    "HoldLimit",
    "InvalidArgument",
    "OutOfMemory",
    "ProtocolError",
    "Publisher",
    "Sample",
    "Subscriber",
    "SystemCallError",
    "Timeout",
    "Unsupported",
    "VersionMismatch",
    "__version__",
    "participant",
]
