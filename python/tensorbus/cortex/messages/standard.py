"""The standard messages of `tensorbus`, with fields that accept any value."""

from __future__ import annotations

import dataclasses
import types
from typing import TYPE_CHECKING, Any

from tensorbus.cortex.messages.base import STANDARD, STANDARD_BY_FINGERPRINT, Message
from tensorbus.messages import _standard as ours
from tensorbus.messages._standard import __all__ as __all__

if TYPE_CHECKING:
    from tensorbus.messages._standard import *  # noqa: F403


def _unchecked(cls: Any) -> Any:
    """The class for Cortex's programs, with the same name and fingerprint."""
    members = {"__doc__": cls.__doc__, "__module__": __name__}
    made = types.new_class(
        cls.__name__,
        (Message, cls),
        {"name": cls._message_name},
        lambda names: names.update(members),
    )
    return dataclasses.dataclass(made)


for _name in __all__:
    _ours = getattr(ours, _name)
    _made = globals()[_name] = _unchecked(_ours)
    STANDARD[_ours] = STANDARD_BY_FINGERPRINT[_ours.fingerprint()] = _made
