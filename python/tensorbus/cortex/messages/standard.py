"""The standard messages."""

from tensorbus.messages import (
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
    "MultiArrayMessage",
    "MultiTensorMessage",
    "PointCloudMessage",
    "PoseMessage",
    "StringMessage",
    "TensorMessage",
    "TimestampMessage",
    "TransformMessage",
]
