"""Results of requests to a queue."""

from __future__ import annotations

from tensorbus._base.errors import Closed, ShutDown
from tensorbus._core import Outcome, Pending, Sample


async def outcome_of(pending: Pending) -> Sample | Outcome:
    """Awaits the result of a request by its descriptor, without a thread."""
    outcome: Sample | Outcome = Outcome.TIMED_OUT
    try:
        while outcome is Outcome.TIMED_OUT:  # an item on a GPU may arrive in two steps
            await _readable(pending.fileno())
            outcome = pending.take()
    except BaseException:
        pending.cancel()
        raise
    return outcome


async def result_of(pending: Pending) -> Sample | Outcome:
    """`outcome_of`; raises if the queue was shut down or closed."""
    return checked(await outcome_of(pending))


def checked(outcome: Sample | Outcome) -> Sample | Outcome:
    """Returns the outcome of a call; raises if the queue was shut down or closed."""
    if outcome is Outcome.SHUT_DOWN:
        raise ShutDown("the queue was shut down, and no item is left in it")
    if outcome is Outcome.CLOSED:
        raise Closed("the queue is closed, or its process is gone")
    return outcome


async def _readable(descriptor: int) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
