"""Typed messages, for the packages below `tensorbus.messages`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tensorbus._base.errors import InvalidArgument

if TYPE_CHECKING:
    from tensorbus._codec.protocols import Plan


class LoweredMessage(NamedTuple):
    """A typed message: the name of its type, and its fields as values that can be sent."""

    name: str
    fields: dict[str, Any]


def plan_or_none(message_type: object) -> Plan | None:
    """The plan of a message type; None for no type."""
    if message_type is None:
        return None
    if not isinstance(message_type, type) or not hasattr(message_type, "_message_plan_of"):
        raise InvalidArgument(
            f"message_type={message_type!r}: expected a class that inherits from tensorbus.Message"
        )
    plan: Plan = message_type._message_plan_of()
    return plan
