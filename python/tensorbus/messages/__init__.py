"""Typed messages: dataclasses that travel by the names of their fields. See docs/messages.md."""

from tensorbus.messages._definition import compatible
from tensorbus.messages._message import Message, MessageHeader
from tensorbus.messages._registry import MessageType
from tensorbus.messages._standard import (
    ArrayMessage,
    BytesMessage,
    DictMessage,
    FloatMessage,
    HeaderMessage,
    ImageMessage,
    IntMessage,
    ListMessage,
    MultiArrayMessage,
    MultiTensorMessage,
    PointCloudMessage,
    PoseMessage,
    StringMessage,
    TensorMessage,
    TimestampMessage,
    TransformMessage,
)

__all__ = [
    "ArrayMessage",
    "BytesMessage",
    "DictMessage",
    "FloatMessage",
    "HeaderMessage",
    "ImageMessage",
    "IntMessage",
    "ListMessage",
    "Message",
    "MessageHeader",
    "MessageType",
    "MultiArrayMessage",
    "MultiTensorMessage",
    "PointCloudMessage",
    "PoseMessage",
    "StringMessage",
    "TensorMessage",
    "TimestampMessage",
    "TransformMessage",
    "compatible",
]
