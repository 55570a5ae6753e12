"""The status that the bridge of this machine publishes every second.

Any process can publish on that topic, so each message is checked.
"""

from __future__ import annotations

import time
from typing import Any, TypeGuard

from tensorbus._base.errors import Timeout
from tensorbus._topics.subscriber import Subscriber

Status = dict[str, Any]

_Keys = dict[str, tuple[type, ...]]
_STATUS: _Keys = {"machine": (str,), "bridge": (str,), "publishers": (int,), "peers": (list,)}
_PEER: _Keys = {
    "machine": (str,),
    "bridge": (str,),
    "address": (str,),
    "connected": (bool,),
    "clock_offset_ns": (int,),
    "clock_uncertainty_ns": (int, type(None)),
    "sending": (list,),
    "receiving": (list,),
    "queues": (list,),
    "services": (list,),
}
_GONE: _Keys = {"machine": (str,), "address": (str,), "gone_s": (int, float), "why": (str,)}
# Keys of a stream's lost samples, by direction.
LOST = {"sending": ("missed", "unsent"), "receiving": ("discarded", "bad")}
_STREAM: _Keys = {"topic": (str,), "publisher": (str,), "samples": (int,), "bytes": (int,)}


def is_status(data: object) -> bool:
    """True if the message has the form of a bridge's status."""
    if not _has(data, _STATUS):
        return False
    gone = data.get("gone", [])  # absent in the status of older versions
    return (
        all(map(_is_peer, data["peers"]))
        and isinstance(gone, list)
        and all(_has(each, _GONE) and 0 <= each["gone_s"] < 1e9 for each in gone)
    )


def _is_peer(peer: object) -> bool:
    return (
        _has(peer, _PEER)
        and all(
            _has(each, _STREAM | dict.fromkeys(lost, (int,)))
            for direction, lost in LOST.items()
            for each in peer[direction]
        )
        and all(isinstance(each, str) for each in (*peer["queues"], *peer["services"]))
    )


def _has(data: object, keys: _Keys) -> TypeGuard[Status]:
    return isinstance(data, dict) and all(
        isinstance(data.get(key, ()), types) for key, types in keys.items()
    )


def status_of(domain: str | None, timeout: float = 2.0) -> Status | None:
    """The bridge's newest status; None if none arrived within `timeout` seconds."""
    from tensorbus.bridge._bridge import STATUS_TOPIC  # imports asyncio and ssl

    deadline = time.monotonic() + timeout
    with Subscriber[Status](STATUS_TOPIC, domain=domain) as subscriber:
        try:
            while not is_status(found := _next(subscriber, deadline)):
                pass
        except Timeout:
            return None
        return found


def _next(subscriber: Subscriber[Status], deadline: float) -> Status:
    return subscriber.receive(max(deadline - time.monotonic(), 0)).data
