"""The interface of Cortex over Tensorbus: change a program's imports. See docs/cortex.md."""

from tensorbus.cortex.core.node import Node
from tensorbus.cortex.core.publisher import Publisher
from tensorbus.cortex.core.subscriber import Subscriber
from tensorbus.cortex.messages.base import Message, MessageFingerprintError, MessageType
from tensorbus.cortex.utils.loop import run

__version__ = "0.1.0"  # the version of Cortex with this interface

__all__ = [
    "Message",
    "MessageFingerprintError",
    "MessageType",
    "Node",
    "Publisher",
    "Subscriber",
    "run",
]
