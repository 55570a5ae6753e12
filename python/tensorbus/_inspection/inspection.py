"""Inspection of a domain: requests the reports of all its participants."""

from __future__ import annotations

from tensorbus import _core
from tensorbus._base.arguments import seconds
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._inspection.report import Inspection


@public
def inspect(domain: str | None = None, timeout: float = 1.0) -> Inspection:
    """What each participant of a domain has, and which processes hold its memory.

    The participants reply with counters that they always maintain: the inspection subscribes to no
    topic, and no publisher waits for it. All participants are requested at the same time. A process
    that is stopped or hangs is listed with the reason in `error`; a process that has ended is not
    listed. The calling process needs no participant. A domain that does not exist is not created,
    and has an empty list.

    Args:
        domain: a path if it has a slash, else a name beside the default domain; `None` for
            `TENSORBUS_DOMAIN`, else "default".
        timeout: seconds to wait for all replies.

    Raises:
        InvalidArgument: `timeout` is negative, infinite or not a number.
        TypeError: `timeout` is not a number of seconds.
        AccessDenied: another user owns the domain directory or may write to it.

    >>> from tensorbus import Publisher
    >>> with Publisher("doc/inspect", domain="doc-inspect") as publisher:
    ...     publisher.publish(7)
    ...     for participant in inspect("doc-inspect").participants:
    ...         [(report.topic, report.stats.sent) for report in participant.publishers]
    0
    [('doc/inspect', 1)]
    """
    limit = seconds("timeout", timeout)
    if limit is None:
        raise InvalidArgument(
            f"timeout={timeout}: expected seconds, because a stopped process never replies"
        )
    inspection: Inspection = _core.inspect(domain or "", limit)
    return inspection
