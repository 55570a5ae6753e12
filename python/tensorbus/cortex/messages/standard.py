"""The standard messages."""

from tensorbus.messages._standard import *  # noqa: F403
from tensorbus.messages._standard import __all__ as __all__
