"""What the bridge of this machine says of itself, once a second."""

from __future__ import annotations

from typing import Any

from tensorbus._base.errors import Timeout
from tensorbus._topics.subscriber import Subscriber

Status = dict[str, Any]


def status_of(domain: str | None, timeout: float = 2.0) -> Status | None:
    """The bridge's newest status; None if none came in time."""
    from tensorbus.bridge._bridge import STATUS_TOPIC  # imports asyncio and ssl

    with Subscriber[Status](STATUS_TOPIC, domain=domain, timeout=timeout) as subscriber:
        try:
            return subscriber.receive().data
        except Timeout:
            return None


def clock_uncertainties(domain: str | None) -> dict[str, int | None]:
    """By how many nanoseconds the clock of each other machine may be off at most.

    None, or no entry: nothing is known.
    """
    status = status_of(domain) or {"peers": []}
    return {peer["machine"]: peer["clock_uncertainty_ns"] for peer in status["peers"]}
