"""Awaiting a request of a queue."""

from __future__ import annotations

from tensorbus._base.errors import Closed, ShutDown
from tensorbus._core import Outcome, Pending, Sample


async def taken(pending: Pending) -> Sample | Outcome:
    """What becomes of a request, without a thread: its descriptor tells."""
    outcome: Sample | Outcome = Outcome.TIMED_OUT
    try:
        while outcome is Outcome.TIMED_OUT:  # an item that is on a GPU may come in two steps
            await _readable(pending.fileno())
            outcome = pending.take()
    except BaseException:
        pending.cancel()
        raise
    return outcome if isinstance(outcome, Sample) else checked(outcome)


def checked(outcome: Outcome) -> Outcome:
    """The outcome of a call, unless the queue is at its end: that raises."""
    if outcome is Outcome.SHUT_DOWN:
        raise ShutDown("the queue was shut down, and nothing is left in it")
    if outcome is Outcome.CLOSED:
        raise Closed("the queue is closed, or the process that has it is gone")
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
