"""What is going on in a domain: asks all its participants."""

from __future__ import annotations

from tensorbus import _core
from tensorbus._base.arguments import seconds
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._inspection.report import Inspection


@public
def inspect(domain: str | None = None, timeout: float = 1.0) -> Inspection:
    """What each participant of a domain has, and who holds its memory.

    The participants answer from counters that they keep anyway: nothing subscribes, and no
    publisher waits. All are asked at once. A process that is stopped, or hangs, is listed with
    `error`, the reason; a process that has ended is not listed. This process needs no participant:
    in a domain that does not exist nobody is listed, and it is not made.

    Args:
        domain: a path if it has a slash, else a name beside the default domain; `None` for
            `TENSORBUS_DOMAIN`, else "default".
        timeout: seconds to wait for all participants together.

    Raises:
        InvalidArgument: a timeout that is no number, or infinite.
        TypeError: a timeout that is not a number of seconds.
        AccessDenied: the domain directory belongs to somebody else, or others may write to it.

    >>> from tensorbus import Publisher
    >>> with Publisher("doc/inspect", domain="doc-inspect") as publisher:
    ...     publisher.publish(7)
    ...     for participant in inspect("doc-inspect").participants:
    ...         [(report.topic, report.stats.sent) for report in participant.publishers]
    0
    [('doc/inspect', 1)]
    """
    most = seconds("timeout", timeout)
    if most is None:
        raise InvalidArgument(f"timeout={timeout}: a process that is stopped never answers")
    found: Inspection = _core.inspect(domain or "", most)
    return found
