"""The base of messages."""

from tensorbus._base.errors import TypeMismatch as MessageFingerprintError
from tensorbus.messages import Message, MessageHeader, MessageType

__all__ = ["Message", "MessageFingerprintError", "MessageHeader", "MessageType"]
