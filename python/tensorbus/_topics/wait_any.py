"""Waiting for several subscribers at once."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Iterable

from tensorbus._base.arguments import seconds
from tensorbus._base.closing import Closing
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._topics.subscriber import Subscriber

# Seconds of one poll, as in the core. A signal that another thread receives, or that comes just
# before the poll, does not interrupt the poll: Python handles it after this time.
_SIGNAL_SLICE = 0.1


@public
def wait_any(subscribers: Iterable[Subscriber], timeout: float | None = None) -> list[Subscriber]:
    """Waits until `receive` of at least one of several subscribers would not wait.

    `receive` would return a sample, or raise `Closed` or `HoldLimit`. No sample is taken:
    `try_receive` may still return None if another thread receives from the same subscriber. With
    asyncio, make a task of `AsyncSubscriber.receive` for each subscriber, and use `asyncio.wait`.

    Args:
        subscribers: at least one; duplicates are ignored.
        timeout: seconds; `None` for no limit, 0 to return at once.

    Returns:
        The ready subscribers, in the order given; an empty list after `timeout`.

    Raises:
        TypeError: a subscriber was passed instead of a list.
        InvalidArgument: the list is empty, or has an item that is not a `Subscriber`.

    >>> from tensorbus import Publisher
    >>> with Publisher("doc/b", history=1) as publisher:
    ...     publisher.publish(7)
    ...     with Subscriber("doc/a") as a, Subscriber("doc/b") as b:
    ...         [subscriber.receive().data for subscriber in wait_any([a, b], timeout=10)]
    0
    [7]
    """
    # A subscriber is iterable, too, but iteration would take its samples.
    if isinstance(subscribers, Closing) or not isinstance(subscribers, Iterable):
        raise TypeError(
            f"wait_any({type(subscribers).__name__}): expected a list: write wait_any([subscriber])"
        )
    watched = list(dict.fromkeys(subscribers))
    if not watched:
        raise InvalidArgument("subscribers=[]: there is nothing to wait for")
    poll = select.poll()
    for subscriber in watched:
        if not isinstance(subscriber, Subscriber):
            raise InvalidArgument(
                f"{type(subscriber).__name__} is no Subscriber; with asyncio, use asyncio.wait"
            )
        poll.register(subscriber.fileno(), select.POLLIN)
    timeout = seconds("timeout", timeout)
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        # `ready` re-arms the descriptors of the subscribers that are not ready.
        ready = [subscriber for subscriber in watched if subscriber.ready()]
        left = _SIGNAL_SLICE if deadline is None else deadline - time.monotonic()
        if ready or left <= 0:
            return ready
        poll.poll(math.ceil(min(left, _SIGNAL_SLICE) * 1000))
