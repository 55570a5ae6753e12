"""The latency of samples from the publisher to the page's server."""

from __future__ import annotations

from bisect import bisect
from collections import deque
from typing import Any

# From 1 microsecond to 10 seconds, four bins for each factor of ten.
EDGES = [1e-6 * 10 ** (step / 4) for step in range(29)]
_KEPT = 512


class Latency:
    """Statistics of the last 512 latencies, in seconds.

    >>> latency = Latency()
    >>> for microseconds in (1, 2, 3, 50):
    ...     latency.add(microseconds / 1e6)
    >>> found = latency.summary()
    >>> found["p50"], found["count"], sum(found["bins"])
    (3e-06, 4, 4)
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float) -> None:
        """Adds a latency. A negative latency, after the clock was set back, counts as 0."""
        self._times.append(max(seconds, 0.0))

    def summary(self) -> dict[str, Any] | None:
        """Median, 99th percentile and a histogram with the bins of EDGES; None if there is none."""
        if not self._times:
            return None
        times = sorted(self._times)
        bins = [0] * (len(EDGES) + 1)
        for seconds in times:
            bins[bisect(EDGES, seconds)] += 1
        return {
            "count": len(times),
            "p50": times[len(times) // 2],
            "p99": times[min(len(times) * 99 // 100, len(times) - 1)],
            "bins": bins,
        }
