"""Typed messages: dataclasses that are sent as fields with names. See docs/messages.md."""

from tensorbus._codec.records import register
from tensorbus.messages._definition import compatible
from tensorbus.messages._message import Message, MessageHeader, lower_message
from tensorbus.messages._message_type import MessageType
from tensorbus.messages._registry import restore_named
from tensorbus.messages._standard import *  # noqa: F403
from tensorbus.messages._standard import __all__ as __all__

# mypy follows `*__all__`, so the standard messages are listed only in their own module.
__all__ = ["Message", "MessageHeader", "MessageType", "compatible", *__all__]

compatible.__module__ = __name__
register("message", Message, lower_message, restore_named)
