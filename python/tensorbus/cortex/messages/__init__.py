"""Messages under the module names of Cortex."""

from tensorbus.cortex.messages.base import (
    Message,
    MessageFingerprintError,
    MessageHeader,
    MessageType,
)
from tensorbus.cortex.messages.standard import *  # noqa: F403
from tensorbus.cortex.messages.standard import __all__ as __all__

__all__ = ["Message", "MessageFingerprintError", "MessageHeader", "MessageType", *__all__]
