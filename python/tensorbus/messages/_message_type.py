"""The users' interface to the registry of message types."""

from __future__ import annotations

from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus.messages import _registry
from tensorbus.messages._message import Message
from tensorbus.messages._plan import is_message_class


@public
class MessageType:
    """The message types of this process, by fingerprint.

    It has the standard messages, and weak references to all classes that inherit from `Message`. If
    two classes have the same definition, for example after a module is reloaded, it has the newer
    class.

    >>> from tensorbus import ImageMessage
    >>> MessageType.get(ImageMessage.fingerprint())
    <class 'tensorbus.ImageMessage'>
    """

    @staticmethod
    def get(fingerprint: int) -> type[Message] | None:
        """The class with this fingerprint; None if this process has none."""
        return _registry.with_fingerprint(fingerprint)

    @staticmethod
    def get_all() -> dict[int, type[Message]]:
        """All classes that are dataclasses, by fingerprint."""
        return _registry.all_by_fingerprint()

    @staticmethod
    def register(cls: type[Message]) -> type[Message]:
        """Registers a class again, for example after `clear`. Also works as a decorator.

        Returns:
            The class.

        Raises:
            InvalidArgument: `cls` does not inherit from `Message`.
        """
        if not is_message_class(cls):
            raise InvalidArgument(f"{cls!r} does not inherit from tensorbus.Message")
        _registry.add(cls)
        return cls

    @staticmethod
    def clear() -> None:
        """Removes all classes but the standard messages."""
        _registry.clear()
