"""The types of callbacks."""

from collections.abc import Callable, Coroutine
from typing import Any

from tensorbus.cortex.messages.base import MessageHeader
from tensorbus.messages import Message

AsyncCallback = Callable[..., Coroutine[Any, Any, None]]
MessageCallback = Callable[[Message, MessageHeader], Coroutine[Any, Any, Any]]
SyncMessageCallback = Callable[[Message, MessageHeader], None]
