"""When a pool gives up an item, and how many may wait."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._base.arguments import positive_limit, whole_number
from tensorbus._base.errors import InvalidArgument
from tensorbus._pools.batches import Limits


@dataclass
class Rules:
    """Arguments of `WorkerPool` for its items.

    Raises:
        InvalidArgument: a number is out of range, or fewer items may wait than a batch has.
    """

    retries: int
    limits: Limits
    run_timeout: float | None
    max_waiting: int | None

    def __post_init__(self) -> None:
        self.retries = whole_number("retries", self.retries, low=0)
        self.run_timeout = positive_limit("run_timeout", self.run_timeout)
        if self.max_waiting is None:
            return
        self.max_waiting = whole_number("max_waiting", self.max_waiting, low=1)
        if self.max_waiting < (self.limits.size or 1):
            raise InvalidArgument(
                f"max_waiting={self.max_waiting}: fewer items than a batch "
                f"(batch={self.limits.size}), so no batch would become full"
            )
