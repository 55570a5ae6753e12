"""What users ask the registry of message types."""

from __future__ import annotations

from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus.messages import _registry
from tensorbus.messages._message import Message
from tensorbus.messages._plan import is_message_class


@public
class MessageType:
    """The message types of this process, by fingerprint.

    Every class that inherits from `Message` is here by itself, for as long as somebody else holds
    it, and the standard messages always are. Of two classes of one definition, as after a module is
    reloaded, the newer one counts.

    >>> from tensorbus import ImageMessage
    >>> MessageType.get(ImageMessage.fingerprint())
    <class 'tensorbus.ImageMessage'>
    """

    @staticmethod
    def get(fingerprint: int) -> type[Message] | None:
        """The class with this fingerprint, if there is one here."""
        return _registry.with_fingerprint(fingerprint)

    @staticmethod
    def get_all() -> dict[int, type[Message]]:
        """All classes, by fingerprint. Those that are no dataclasses yet are not among them."""
        return _registry.all_by_fingerprint()

    @staticmethod
    def register(cls: type[Message]) -> type[Message]:
        """Makes a class known, again or after `clear`. May be used as a decorator.

        Raises:
            InvalidArgument: it is no message class.
        """
        if not is_message_class(cls):
            raise InvalidArgument(f"{cls!r} does not inherit from tensorbus.Message")
        _registry.add(cls)
        return cls

    @staticmethod
    def clear() -> None:
        """Forgets all but the standard messages."""
        _registry.clear()
